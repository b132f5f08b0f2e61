"""Client: stream completions from an OpenAI-compatible server and stamp every token.

Owns HTTP, server-sent events and the messages for whatever a server may do wrong. What to send and
what the timestamps mean is decided elsewhere. Times are of the running event loop's clock
(monotonic), taken when a piece of the response is read.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx

from sim.core.errors import suggestion
from sim.measure.errors import MeasureError
from sim.measure.meter import Meter
from sim.measure.prompts import Prompt
from sim.measure.timeline import Stream


class Client:
    """One server. `model` is set by `choose_model`; every request passes `meter` before it is sent."""

    def __init__(self, http: httpx.AsyncClient, url: str, meter: Meter) -> None:
        self._http = http
        self._url = url.rstrip("/")
        self._meter = meter
        self.model = ""
        self.server = ""
        """What the server calls itself in its `server` header; empty if it does not."""

    async def choose_model(self, wanted: str | None) -> None:
        """Take the model called `wanted`, or the only one there is.

        A server without a model list is taken at its word when `wanted` is given.
        """
        with _explained(self._url):
            response = await self._http.get(f"{self._url}/models")
        self.server = response.headers.get("server", "")
        if response.status_code == 404 and wanted:
            self.model = wanted
            return
        _check_status(response.status_code, response.text, f"{self._url}/models")
        names = _model_names(response, self._url)
        if wanted is None and len(names) != 1:
            raise MeasureError(f"{self._url} serves {len(names)} models; choose one by --model: "
                               f"{', '.join(names) or 'it lists none'}")
        if wanted is not None and wanted not in names:
            raise MeasureError(f"--model {wanted!r}: {self._url} has no such model; "
                               f"{suggestion(wanted, names)}")
        self.model = wanted or names[0]

    async def complete(self, prompt: Prompt, output_tokens: int, watch: Watch | None = None) -> Stream:
        """Stream one completion of exactly `output_tokens` tokens (greedy, EOS ignored).

        `watch` is told of every token as it comes. Raises MeasureError if the server answers with
        an error, without streaming, with fewer or more tokens than asked for, or not in time.
        """
        self._meter.charge(prompt.tokens + output_tokens)
        body = {
            "model": self.model,
            "prompt": prompt.content,
            "max_tokens": output_tokens,
            "temperature": 0.0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        request = self._http.build_request("POST", f"{self._url}/completions", json=body)
        clock = asyncio.get_running_loop().time
        stream = Stream(prompt.tokens, clock())
        reply = _Reply()
        with _explained(self._url):
            response = await self._http.send(request, stream=True)
            try:
                await _check_streaming(response)
                async for piece in response.aiter_raw():
                    now_s = clock()
                    for _ in range(reply.read(piece)):
                        stream.token_s.append(now_s)
                    if len(stream.token_s) > output_tokens + 1:
                        raise MeasureError(f"the server went on after max_tokens {output_tokens}")
                    if watch is not None:
                        watch.seen(len(stream.token_s))
            finally:
                await response.aclose()
                if watch is not None:
                    watch.ended()
        del stream.token_s[reply.tokens(len(stream.token_s), output_tokens) :]
        if reply.prompt_tokens is not None:
            self._meter.correct(prompt.tokens, reply.prompt_tokens)
            stream.prompt_tokens = reply.prompt_tokens
        elif not prompt.exact:
            raise MeasureError("the server reports no usage, so the length of a text prompt is unknown; "
                               "use --prompt-style tokens if it takes token ids")
        return stream


class Watch:
    """Lets a coroutine wait for the progress of a stream."""

    def __init__(self) -> None:
        self._count = 0
        self._ended = False
        self._changed = asyncio.Event()

    def seen(self, count: int) -> None:
        """The stream now has `count` tokens."""
        self._count = count
        self._changed.set()

    def ended(self) -> None:
        """No more tokens will come."""
        self._ended = True
        self._changed.set()

    @property
    def count(self) -> int:
        return self._count

    async def reached(self, count: int) -> bool:
        """Wait until the stream has `count` tokens; False if it ended short of that."""
        while self._count < count and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        return self._count >= count


@asynccontextmanager
async def open_client(
    url: str, meter: Meter, *, timeout_s: float, api_key: str | None = None
) -> AsyncIterator[Client]:
    """A client of the server at `url` (ending in /v1); its connections are closed at the end.

    Connections are kept open and not limited in number, so that no request waits for one. Proxies of
    the environment are not used: they would be measured too.
    """
    headers = {"Accept-Encoding": "identity"}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    timeout = httpx.Timeout(timeout_s, connect=min(10.0, timeout_s))
    async with httpx.AsyncClient(headers=headers, limits=limits, timeout=timeout, trust_env=False) as http:
        yield Client(http, url, meter)


class _Reply:
    """What a stream of server-sent events has said so far."""

    def __init__(self) -> None:
        self._rest = b""
        self._finish: str | None = None
        self._empty_close = False
        self._output_tokens: int | None = None
        self.prompt_tokens: int | None = None

    def read(self, piece: bytes) -> int:
        """Take the next bytes; the number of token events they complete."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        return sum(self._event(line[len(b"data:") :].strip()) for line in lines if line.startswith(b"data:"))

    def _event(self, data: bytes) -> int:
        if not data or data == b"[DONE]":
            return 0
        try:
            event: dict[str, Any] = json.loads(data)
        except ValueError:
            raise MeasureError(f"the server sent an event that is not JSON: {data[:80]!r}") from None
        if event.get("error"):
            raise MeasureError(f"the server failed in the middle of a stream: {_error_text(data.decode())}")
        usage = event.get("usage") or {}
        self.prompt_tokens = usage.get("prompt_tokens", self.prompt_tokens)
        self._output_tokens = usage.get("completion_tokens", self._output_tokens)
        choices = event.get("choices") or []
        if not choices:
            return 0
        finish = choices[0].get("finish_reason")
        self._finish = finish or self._finish
        self._empty_close = bool(finish) and not choices[0].get("text")
        return 1

    def tokens(self, events: int, asked: int) -> int:
        """How many of the `events` were tokens; MeasureError unless that is what was `asked` for.

        A token may have no text (half a character); some servers also close with an event that is no
        token at all. The count tells them apart.
        """
        if events == asked + 1 and self._empty_close:
            return asked
        produced = events if self._output_tokens is None else self._output_tokens
        if produced < asked:
            raise MeasureError(
                f"the server stopped after {produced} of {asked} tokens (finish_reason "
                f"{self._finish!r}): it does not honour ignore_eos, or its context is too short"
            )
        if events != asked:
            raise MeasureError(
                f"the server sent {events} events for {asked} tokens; one a token is needed "
                "(vLLM: no --stream-interval, no speculative decoding)"
            )
        return asked


@contextmanager
def _explained(url: str) -> Iterator[None]:
    """Turn what the HTTP library raises into a sentence for the user."""
    try:
        yield
    except httpx.UnsupportedProtocol:
        raise MeasureError(f"--url {url!r}: must start with http:// or https://") from None
    except httpx.ConnectTimeout:
        raise MeasureError(f"{url}: no connection in time; is the server up, is the port right?") from None
    except httpx.TimeoutException:
        raise MeasureError(f"{url}: no answer in time; a slow server needs a larger --timeout") from None
    except httpx.ConnectError as error:
        raise MeasureError(f"{url}: cannot connect ({error}); is the server up, is the port right?") from None
    except httpx.TransportError as error:
        raise MeasureError(f"{url}: the connection broke while streaming ({error})") from None
    except httpx.InvalidURL as error:
        raise MeasureError(f"--url {url!r}: {error}") from None


async def _check_streaming(response: httpx.Response) -> None:
    """Refuse an answer that is an error or not a stream of events."""
    kind = response.headers.get("content-type", "")
    if response.status_code == 200 and kind.startswith("text/event-stream"):
        return
    await response.aread()
    _check_status(response.status_code, response.text, str(response.url))
    raise MeasureError(f"{response.url}: the server does not stream (content-type {kind or 'missing'}); "
                       "measuring needs one server-sent event a token")


def _check_status(status: int, body: str, where: str) -> None:
    if status == 200:
        return
    text = _error_text(body)
    hint = ""
    if status in (401, 403):
        hint = "; name the variable that holds its key by --api-key-env"
    elif status == 404:
        hint = "; is the URL the one that ends in /v1, is the model's name right?"
    elif status in (400, 422):
        hint = (
            "; it may not take token ids (--prompt-style text) or such lengths "
            "(--chunks, --prompts, --contexts)"
        )
    raise MeasureError(f"{where}: HTTP {status}: {text}{hint}")


def _error_text(body: str) -> str:
    """The server's own message, out of the usual JSON forms; else the start of the body."""
    try:
        answer = json.loads(body)
    except ValueError:
        return body.strip()[:200] or "empty answer"
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    if isinstance(error, dict):
        error = error.get("message") or error.get("detail") or error
    return str(error)[:300]


def _model_names(response: httpx.Response, url: str) -> list[str]:
    try:
        return [str(model["id"]) for model in response.json()["data"]]
    except (ValueError, KeyError, TypeError):
        raise MeasureError(f"{url}/models: not an OpenAI-compatible list of models; "
                           "is the URL the one that ends in /v1?") from None
