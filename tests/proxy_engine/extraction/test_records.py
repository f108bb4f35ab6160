"""Texts and images of records."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Literal

import pytest
from PIL import Image

from proxy_engine import ImageContent, InferenceEngine, PromptError, RecordError, TextContent
from proxy_engine.extraction.inputs import RecordContent
from proxy_engine.extraction.paths import files_in
from proxy_engine.extraction.records import RecordReader, write_prompt
from proxy_engine.extraction.schemas import written_form

PICTURE = Image.new("RGB", (4, 4), "red")


@pytest.fixture(scope="module")
def png() -> bytes:
    file = io.BytesIO()
    PICTURE.save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def path(tmp_path: Path, png: bytes) -> Path:
    path = tmp_path / "red.png"
    path.write_bytes(png)
    return path


def test_images_are_read_in_every_form(path: Path, png: bytes) -> None:
    reader = RecordReader(image="photo")
    for value in (path, str(path), png, {"bytes": png, "path": None}, ImageContent(data=png)):
        assert reader.read({"photo": value}).images == (ImageContent(data=png),)
    stored = reader.read({"photo": {"bytes": None, "path": str(path)}})
    assert stored.images == (ImageContent(data=png),)
    url = "https://example.org/a.png"
    both = reader.read({"text": "x", "photo": [path, url]})
    assert both == RecordContent("x", (ImageContent(data=png), ImageContent(url=url)))
    (drawn,) = reader.read({"photo": PICTURE}).images
    assert drawn.media_type == "image/png"


def test_record_may_lack_one_of_text_and_image(path: Path) -> None:
    reader = RecordReader(image=lambda record: record.get("photo"))
    assert reader.read({"photo": str(path), "text": None}).text == ""
    assert reader.read({"text": "x"}).images == ()
    for record in ({"photo": None}, {"photo": [], "text": " "}, {"id": 3}):
        with pytest.raises(RecordError):
            reader.read(record)


@pytest.mark.parametrize(
    "text", ["", " \n", "\u200b", "\ufeff\u00a0", "\0\x85\u2028", "\u202e\u2066"]
)
def test_text_without_visible_characters_is_refused(text: str) -> None:
    with pytest.raises(RecordError, match=r"is empty|no visible characters"):
        RecordReader().read(text)


@pytest.mark.parametrize("text", [".", "\ufeff0", "\ue000", "\U0001fae9", "\u0301"])
def test_text_with_a_visible_character_is_read(text: str) -> None:
    assert RecordReader().read(text).text == text


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("none.png", "No such file"),
        (3, "an image should be a path"),
        (["a.png", 3], "No such file|an image should be"),
        ("a\0b", "cannot read"),
    ],
)
def test_unreadable_image_is_an_error(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RecordReader(image="photo").read({"photo": value})


def test_images_for_a_text_model_end_the_run(tiny_engine: InferenceEngine, path: Path) -> None:
    records = [{"text": "x"}, {"photo": str(path)}]
    with pytest.raises(PromptError, match="does not read images"):
        tiny_engine.extract(records, Literal[1, 2], image="photo", progress=False)


def test_prompt_has_images_before_the_text(path: Path) -> None:
    content = RecordReader(image="photo").read({"text": "x", "photo": str(path)})
    prompt: Any = write_prompt(None, {"shop": "", "total": ""}, True, None, content)
    text = TextContent("Extract shop, total from this text and image as JSON:\n\nx")
    assert list(prompt.content) == [content.images[0], text]


@pytest.mark.parametrize(
    ("schema", "form"),
    [
        ({"type": "string", "format": "date"}, "YYYY-MM-DD"),
        ({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/at"}]}, "YYYY-MM-DDTHH:MM:SSZ"),
        ({"type": "string", "format": "email"}, ""),
        ({"$ref": "#/$defs/list"}, ""),
        (True, ""),
    ],
)
def test_default_instruction_names_the_form_of_dates(schema: Any, form: str) -> None:
    at = {"type": "string", "format": "date-time"}
    root = {"$defs": {"at": at, "list": {"anyOf": [{"$ref": "#/$defs/list"}]}}}
    assert written_form(schema, root) == form
    prompt = write_prompt(None, {"id": "", "day": form}, True, None, RecordContent("x"))
    named = f"day ({form})" if form else "day"
    assert prompt == f"Extract id, {named} from this text as JSON:\n\nx"


def test_prompt_with_an_empty_instruction_is_the_content(path: Path) -> None:
    assert write_prompt("", {"shop": ""}, True, None, RecordContent(" x\n")) == "x"
    content = RecordReader(image="photo").read({"photo": path})
    images: Any = write_prompt("", {"shop": ""}, True, None, content)
    assert [type(part) for part in images.content] == [ImageContent]


def test_link_to_a_parent_directory_is_not_followed(tmp_path: Path) -> None:
    top, inner = tmp_path / "top", tmp_path / "top" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "other").mkdir()
    for path in (top / "a", inner / "b", tmp_path / "other" / "c"):
        path.write_text("text")
    (inner / "up").symlink_to(top)
    (inner / "self").symlink_to(inner)
    (top / "other").symlink_to(tmp_path / "other")
    found = {str(path.relative_to(top)) for path in files_in(top)}
    assert found == {"a", "inner/b", "other/c"}
