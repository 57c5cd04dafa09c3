"""The README shows a picture of the session that its script records."""

from xml.etree import ElementTree

from scripts import record_demo
from tests.sources import ROOT

SVG = "{http://www.w3.org/2000/svg}"


def _lines_of_picture() -> list[str]:
    """Return the text of the picture by lines."""
    lines: dict[str, str] = {}
    for text in ElementTree.parse(record_demo.PICTURE).iter(f"{SVG}text"):
        lines[text.get("y", "")] = lines.get(text.get("y", ""), "") + (text.text or "").replace("\xa0", " ")
    return [line.rstrip() for line in lines.values()]


def test_readme_shows_the_recorded_picture() -> None:
    """The picture is in the README, with words for those who cannot see it."""
    picture = record_demo.PICTURE.relative_to(ROOT).as_posix()
    assert f"]({picture})" in (ROOT / "README.md").read_text()


def test_picture_is_of_the_session_of_the_script() -> None:
    """Whoever changes the session records it anew."""
    commands = [line.removeprefix("$ ") for line in _lines_of_picture() if line.startswith("$ ")]
    assert commands == list(record_demo.SESSION)


def test_picture_loads_nothing_from_elsewhere() -> None:
    """The picture is whole by itself and names no place but SVG's own."""
    assert record_demo.PICTURE.read_text().replace("http://www.w3.org/", "").count("//") == 0


def test_drawing_keeps_what_was_printed() -> None:
    """Every line of a session is in its drawing, as it was."""
    drawn = record_demo.draw([("execzmq ps", "ID  NAME <&>\n[bold]a[/]\n")]).replace("&#160;", " ")
    assert "ID  NAME &lt;&amp;&gt;" in drawn
    assert "[bold]a[/]" in drawn
