"""Put the results of `python -m sim reproduce all` into docs/reproductions.md.

    python scripts/reproductions_page.py runs/reproductions

Tables go between the page's markers `<!-- findings: NAME -->` and `<!-- end -->`, figures to docs/images/.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def main(results: Path) -> None:
    page = DOCS / "reproductions.md"
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"<!-- findings: (\w+) -->", text):
        table = (results / name / "findings.md").read_text(encoding="utf-8")
        marked = rf"(<!-- findings: {name} -->\n).*?(<!-- end -->)"
        text = re.sub(marked, lambda found, table=table: found[1] + table + found[2], text, flags=re.DOTALL)
    for name in re.findall(r"\(images/reproduction-(\w+)\.png\)", text):
        figure = next(results.glob(f"*/{name}.png"))
        shutil.copyfile(figure, DOCS / "images" / f"reproduction-{name}.png")
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
