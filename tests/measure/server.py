"""A small streaming completions server whose iteration times are known, for testing `sim profile`.

The inside, and the times, are in engine.py; its tokens are streamed when an iteration ends. From the
repository root, by hand:

    python -m tests.measure.server --port 8000

`Faults` makes it misbehave in the ways a real server may.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import selectors
from dataclasses import dataclass
from typing import Any

from tests.measure.engine import Coefficients, Engine, Job


@dataclass(frozen=True)
class Faults:
    """What the server does wrong, for tests of the messages. None of it by default."""

    status: int | None = None
    """Answer every completion with this HTTP status."""
    eos_after: int | None = None
    """Stop every completion after that many tokens, whatever ignore_eos says."""
    no_stream: bool = False
    """Answer with one JSON body."""
    silent: bool = False
    """Take the request and never answer."""
    refuses_token_ids: bool = False
    breaks_after: int | None = None
    """Close the connection after that many tokens."""
    merges: bool = False
    """Send every second token together with the one before it."""
    closing_event: bool = False
    """Close every stream with an event that carries no token."""
    own_tokens: int = 0
    """Tokens the server puts before every prompt, as a tokenizer's BOS."""
    usage: bool = True
    """Report token counts at the end of a stream."""
    prefills_alone: bool = False
    """Run prefills in iterations of their own (prefill first), as vLLM did originally."""


class Server:
    """The HTTP side. `async with Server() as server` listens on loopback at `server.url`.

    A prompt waits `front_end_s` before the engine sees it; a token is sent late by a random time of
    mean `jitter_s`.
    """

    def __init__(
        self,
        costs: Coefficients | None = None,
        *,
        token_budget: int = 512,
        most_at_once: int = 1_000,
        front_end_s: float = 0.004,
        faults: Faults | None = None,
        models: tuple[str, ...] = ("toy-model",),
        port: int = 0,
        spin_s: float = 0.0,
        jitter_s: float = 0.0,
    ) -> None:
        self._jitter_s = jitter_s
        self._random = random.Random(0)
        self.costs = costs or Coefficients()
        self.faults = faults or Faults()
        self._front_end_s = front_end_s
        self._models = models
        self._port = port
        self._engine = Engine(self.costs, token_budget, most_at_once, self.faults.prefills_alone, spin_s)
        self.requests = 0
        self.most_output_tokens = 0

    async def __aenter__(self) -> Server:
        self._loop_task = asyncio.create_task(self._engine.run())
        self._listener = await asyncio.start_server(self._connection, "127.0.0.1", self._port)
        self.url = f"http://127.0.0.1:{self._listener.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._loop_task.cancel()
        self._listener.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one kept-open connection."""
        with contextlib.suppress(asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                path = head[0].split()[1]
                lengths = [line.split(":")[1] for line in head if line.lower().startswith("content-length:")]
                body = await reader.readexactly(int(lengths[0])) if lengths else b"{}"
                if not await self._answer(path, json.loads(body), writer):
                    break
        writer.close()

    async def _answer(self, path: str, body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False to close the connection."""
        if path == "/v1/models":
            return _send_json(writer, 200, {"data": [{"id": name} for name in self._models]})
        if path != "/v1/completions":
            return _send_json(writer, 404, {"detail": "Not Found"})
        self.requests += 1
        faults, prompt = self.faults, body["prompt"]
        if faults.silent:
            await asyncio.sleep(3600)
        if faults.status is not None:
            return _send_json(writer, faults.status, {"error": {"message": "out of order"}})
        if body["model"] not in self._models:
            message = f"The model `{body['model']}` does not exist."
            return _send_json(writer, 404, {"error": {"message": message}})
        if faults.refuses_token_ids and not isinstance(prompt, str):
            return _send_json(writer, 422, {"error": {"message": "prompt: invalid type, expected a string"}})
        if faults.no_stream:
            return _send_json(writer, 200, {"choices": [{"text": "a b c"}]})
        length = len(prompt.split()) if isinstance(prompt, str) else len(prompt)
        length += faults.own_tokens
        asked = body["max_tokens"]
        self.most_output_tokens = max(self.most_output_tokens, asked)
        await asyncio.sleep(self._front_end_s)
        job = Job(length, min(asked, faults.eos_after or asked))
        self._engine.submit(job)
        return await self._stream(job, asked, writer)

    async def _stream(self, job: Job, asked: int, writer: asyncio.StreamWriter) -> bool:
        writer.write(
            b"HTTP/1.1 200 OK\r\nserver: toy\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        reason = "length" if job.output_tokens == asked else "stop"
        try:
            held: list[int] = []
            for number in range(1, job.output_tokens + 1):
                held.append(await job.tokens.get())
                if self._jitter_s:
                    await asyncio.sleep(self._random.expovariate(1 / self._jitter_s))
                if number == self.faults.breaks_after:
                    return False
                last = number == job.output_tokens
                if self.faults.merges and len(held) < 2 and not last:
                    continue
                finish = reason if last and not self.faults.closing_event else None
                _send_event(writer, {"choices": [{"text": " a" * len(held), "finish_reason": finish}]})
                held.clear()
                await writer.drain()
        finally:
            self._engine.abort(job)
        if self.faults.closing_event:
            _send_event(writer, {"choices": [{"text": "", "finish_reason": reason}]})
        if self.faults.usage:
            usage = {"prompt_tokens": job.prompt_tokens, "completion_tokens": job.generated}
            _send_event(writer, {"choices": [], "usage": usage})
        _send_chunk(writer, b"data: [DONE]\n\n")
        _send_chunk(writer, b"")
        return True


def _send_event(writer: asyncio.StreamWriter, event: dict[str, Any]) -> None:
    _send_chunk(writer, b"data: " + json.dumps(event).encode() + b"\n\n")


def _send_chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def _send_json(writer: asyncio.StreamWriter, status: int, answer: Any) -> bool:
    body = json.dumps(answer).encode()
    writer.write(
        f"HTTP/1.1 {status} X\r\nserver: toy\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n".encode()
        + body
    )
    return True


async def _serve(port: int, token_budget: int) -> None:
    # A sleep wakes up a fraction of a millisecond late; the last millisecond is spun away.
    async with Server(token_budget=token_budget, port=port, spin_s=0.001) as server:
        print(f"serving toy-model at {server.url}; token budget {token_budget}; Ctrl-C stops", flush=True)
        await asyncio.Event().wait()


def _fine_loop() -> asyncio.AbstractEventLoop:
    """select() waits to the microsecond; the default epoll rounds every wait up to a millisecond."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--token-budget", type=int, default=512)
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=_fine_loop) as runner:
        runner.run(_serve(options.port, options.token_budget))
