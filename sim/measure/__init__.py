"""Measuring a real server from outside: iteration times of any OpenAI-compatible endpoint.

Owns the plan of what to send, the streaming client, the arithmetic from client-side timestamps to
iteration times, and the table that `calibrate` reads. Leaves fitting to sim/cost and every word
printed to sim/cli. The client needs httpx (the `profile` extra), imported only in `client.py`.
docs/measuring-a-server.md explains the method.
"""
