"""Write the state diagram of a process into its page, from the table that the code goes by."""

from pathlib import Path

from execzmq.process.lifecycle import TABLE, Life

PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "lifecycle.md"
BEGIN, END = "```mermaid\n", "```\n"


def diagram() -> str:
    """Return the diagram in mermaid's language, without the transitions that change and do nothing."""
    lines = ["stateDiagram-v2", f"    [*] --> {Life.STARTING.name}"]
    for (before, fact), (after, actions) in TABLE.items():
        if before is not after or actions:
            done = " / " + ", ".join(action.value for action in actions) if actions else ""
            lines.append(f"    {before.name} --> {after.name}: {fact.value}{done}")
    lines += [f"    {life.name} --> [*]" for life in Life if life.is_over]
    return "\n".join(lines) + "\n"


def with_diagram(page: str) -> str:
    """Return a page with the diagram of today."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + diagram() + rest[rest.index(END) :]


if __name__ == "__main__":
    PAGE.write_text(with_diagram(PAGE.read_text()))
