"""The README and the documentation show what their script records."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from scripts import record_demo
from tests.casts import Cast
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


def test_recording_of_the_documentation_is_one() -> None:
    """It keeps the rules of its format, and its picture is drawn from it."""
    cast = Cast.read(record_demo.RECORDING.read_bytes())
    assert (cast.header["command"], cast.of("x")) == ("python3 steps.py", ["0"])
    assert record_demo.draw_moment(record_demo.RECORDING.read_text()) == record_demo.MOMENT.read_text()


@pytest.mark.slow
def test_recording_is_what_its_program_shows(tmp_path: Path) -> None:
    """Recorded anew it has the same output, so whoever changes the program records it again."""
    *_, (_, anew) = record_demo.record(tmp_path, record_demo.STEPS)
    cast = Cast.read(anew.encode())
    assert cast.text == Cast.read(record_demo.RECORDING.read_bytes()).text
    assert cast.seconds < 20
