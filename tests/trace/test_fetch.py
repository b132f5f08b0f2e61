"""Downloading against a server on this machine: whole, cut, wrong, missing, unreachable."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sim.core.errors import ConfigError, TraceError
from sim.trace.catalogue import CATALOGUE, PublicTrace
from sim.trace.fetch import fetch_file, fetch_trace

pytest.importorskip("pooch", reason="needs the extra `traces`")

CONTENT = b"arrival_s,prompt_tokens,output_tokens\n" + b"".join(b"%d,10,5\n" % n for n in range(200_000))


class Server(ThreadingHTTPServer):
    """Serves CONTENT; `cut_at` closes the connection after so many bytes, once."""

    cut_at: int | None = None
    ranges = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str | None] = []

    def entry(self, path: str = "/trace.csv", content: bytes = CONTENT) -> PublicTrace:
        url = f"http://127.0.0.1:{self.server_port}{path}"
        return PublicTrace(url, hashlib.sha256(content).hexdigest(), "a test", "none", 1)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.headers.get("Range"))
        if self.path != "/trace.csv":
            self.send_error(404)
            return
        start = 0
        if self.server.ranges and (wanted := self.headers.get("Range")):
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(CONTENT):
                self.send_error(416)
                return
        self.send_response(206 if start else 200)
        body = CONTENT[start:]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut, self.server.cut_at = self.server.cut_at, None
        self.wfile.write(body if cut is None else body[:cut])

    def log_message(self, format: str, *args: object) -> None:
        """Silence."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_a_file_is_downloaded_once_and_then_comes_from_the_cache(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    path = fetch_file(server.entry(), tmp_path, lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert fetch_file(server.entry(), tmp_path) == path
    assert len(server.asked) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["trace.csv"]


def test_a_cut_connection_is_an_error_and_the_next_call_goes_on_from_there(
    server: Server, tmp_path: Path
) -> None:
    server.cut_at = 500_000
    with pytest.raises(TraceError, match=r"cut after 500,000 of [\d,]+ bytes"):
        fetch_file(server.entry(), tmp_path)
    assert not (tmp_path / "trace.csv").exists()
    assert fetch_file(server.entry(), tmp_path).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=500000-"]


def test_a_server_without_ranges_starts_again(server: Server, tmp_path: Path) -> None:
    server.cut_at, server.ranges = 500_000, False
    with pytest.raises(TraceError, match="cut"):
        fetch_file(server.entry(), tmp_path)
    assert fetch_file(server.entry(), tmp_path).read_bytes() == CONTENT


def test_a_part_longer_than_the_file_starts_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "trace.csv.part").write_bytes(b"x" * (len(CONTENT) + 1))
    assert fetch_file(server.entry(), tmp_path).read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing_behind(server: Server, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="SHA-256 differs"):
        fetch_file(server.entry(content=b"other"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_in_the_cache_is_downloaded_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_bytes(b"damaged")
    assert fetch_file(server.entry(), tmp_path).read_bytes() == CONTENT


def test_a_missing_file_names_the_servers_answer(server: Server, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"/gone\.csv: the server answered 404"):
        fetch_file(server.entry("/gone.csv"), tmp_path)


def test_offline_says_so_and_where_to_put_the_file(server: Server, tmp_path: Path) -> None:
    entry = server.entry()
    server.shutdown()
    server.server_close()
    with pytest.raises(TraceError, match=r"cannot be reached .*Offline\?.*trace\.csv"):
        fetch_file(entry, tmp_path)


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'azure-2023-conv'"):
        fetch_trace("azure-2023-con")


def test_every_entry_has_a_checksum_and_a_licence() -> None:
    for entry in CATALOGUE.values():
        assert len(entry.sha256) == 64 and entry.licence and entry.url.startswith("https://")
    assert len({entry.file_name for entry in CATALOGUE.values()}) == len(CATALOGUE)
