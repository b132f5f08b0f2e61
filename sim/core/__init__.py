"""Vocabulary shared by every layer: requests, batches, traces, protocols, registry, units, errors.

Owns types and pure helpers only; nothing here simulates, reads files or prints.
"""
