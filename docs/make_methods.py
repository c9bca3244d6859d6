"""Write the tables of methods into docs/methods/index.md and docs/api.md. Run: python docs/make_methods.py"""

from pathlib import Path

from coassoc.consensus.registry import METHODS, methods_table

DOCS = Path(__file__).resolve().parent


def pages() -> dict[Path, str]:
    """Each page with its lists of methods as the registry has them."""
    ours = [method for method in METHODS.values() if method.takes == "labels"]
    tree = "".join(f"{page}\n" for page in dict.fromkeys(method.docs for method in ours))
    names = "".join(f"   {method.class_name}\n" for method in METHODS.values())
    index, api = DOCS / "methods" / "index.md", DOCS / "api.md"
    text = _between(index.read_text(), "U different rows.\n\n", "\n```{toctree}", methods_table())
    text = _between(text, ":hidden:\n\n", "```\n", tree)
    reference = _between(api.read_text(), "Consensus\n---------\n\n.. autosummary::\n   :toctree: api/generated\n\n",
                         "   load\n", names)  # fmt: skip
    return {index: text, api: reference}


def _between(text: str, start: str, stop: str, new: str) -> str:
    """`text` with `new` between the two marks, both of which it must have."""
    head, rest = text.split(start, 1)
    return head + start + new + stop + rest.split(stop, 1)[1]


def main() -> None:
    for page, text in pages().items():
        temporary = page.with_suffix(".tmp")
        temporary.write_text(text)
        temporary.replace(page)


if __name__ == "__main__":
    main()
