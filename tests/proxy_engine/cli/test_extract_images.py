"""``extract`` from images: options, JSON Lines, several files, failures and resuming."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import stand_in_engine
from object_schemas import closed_object
from PIL import Image
from stand_in_engine import StandInEngine
from vision_models import vision_checkpoint

from proxy_engine import InferenceEngine
from proxy_engine.cli.main import main
from proxy_engine.conversation.content import ImageContent, TextContent
from proxy_engine.conversation.interaction import Interaction
from proxy_engine.results.events import Finished

INSTRUCTION = "Extract n, text from this image as JSON:"


class ImageEngine(StandInEngine):
    """Answers ``{"n": number of images, "text": …}`` and records the content of each prompt."""

    input_modalities = frozenset({"text", "image"})

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.images: list[list[bytes | str]] = []
        self.texts: list[str] = []

    def stream(self, prompt: Any, **options: Any) -> Any:
        (item,) = self.iter_batch([prompt], ordered=True, **options)
        yield Finished(result=item.result)

    def item(self, index: int, prompt: Any) -> stand_in_engine.Item:
        parts = prompt.content if isinstance(prompt, Interaction) else [TextContent(prompt)]
        images = [part for part in parts if isinstance(part, ImageContent)]
        text = "".join(part.text for part in parts[len(images) :])
        self.images.append([image.data or image.url for image in images])
        self.texts.append(text)
        if b"damaged" in b"".join(image.data or b"" for image in images):
            return stand_in_engine.Item(index, error=ValueError("the image is damaged"))
        item = super().item(index, text)
        assert item.result is not None
        value = {"n": len(images), "text": text[-20:]}
        return item._replace(result=_with_value(item.result, value))


ENGINE = ImageEngine


def _with_value(result: Any, value: Any) -> Any:
    fields = {name: getattr(result, name) for name in ("usage", "token_ids", "model")}
    return type(result)(
        text=json.dumps(value, ensure_ascii=False), parsed=value, finish_reason="stop", **fields
    )


def image_bytes(colour: str, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (4, 4), colour).save(file, kind)
    return file.getvalue()


@pytest.fixture
def directory(directory: Path) -> Path:
    for colour in ("red", "green", "blue"):
        (directory / f"{colour}.png").write_bytes(image_bytes(colour))
    # An image is recognised by its content, not by its name.
    (directory / "photo.txt").write_bytes(image_bytes("white", "JPEG"))
    (directory / "note.txt").write_text("BMW sold three cars.")
    return directory


def extract(*arguments: object) -> int:
    return main(["extract", "--schema", "schema.json", *map(str, arguments)])


def give_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.usefixtures("directory")
class TestOneRecord:
    @pytest.mark.parametrize(
        ("arguments", "images", "text"),
        [
            (["--image", "red.png"], ["red"], INSTRUCTION),
            (
                ["--image", "red.png", "--image", "blue.png", "note.txt"],
                ["red", "blue"],
                "Extract n, text from this text and images as JSON:\n\nBMW sold three cars.",
            ),
            (["--image", "red.png", "-", "--instruction", "Read:"], ["red"], "Read:\n\nbeside it"),
            (["--image", "https://example.org/a.png"], ["https://example.org/a.png"], INSTRUCTION),
            (["--image", "DATA:image/png;base64,AA"], ["DATA:image/png;base64,AA"], INSTRUCTION),
            # A text can begin like an image format.
            (
                ["note.txt"],
                [],
                "Extract n, text from this text as JSON:\n\nBMW sold three cars.",
            ),
        ],
    )
    def test_images_precede_the_text(
        self,
        engines: list[ImageEngine],
        monkeypatch: pytest.MonkeyPatch,
        arguments: list[str],
        images: list[str],
        text: str,
    ) -> None:
        give_input(monkeypatch, b"beside it")
        assert extract(*arguments, "--quiet") == 0
        expected = [one if ":" in one else image_bytes(one) for one in images]
        assert engines[0].images == [expected]
        assert engines[0].texts == [text]

    @pytest.mark.parametrize("name", ["red.png", "photo.txt"])
    @pytest.mark.parametrize("is_piped", [False, True])
    def test_input_file_that_is_an_image_is_read_as_one(
        self,
        engines: list[ImageEngine],
        name: str,
        is_piped: bool,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        content = Path(name).read_bytes()
        give_input(monkeypatch, content)
        assert extract(*([] if is_piped else [name]), "--quiet") == 0
        assert engines[0].images == [[content]]
        assert engines[0].texts == [INSTRUCTION]

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"%PDF-1.7 \xff", "'in': PDF is not supported"),
            (
                b"\xff\xfe\x00",
                "'in': neither an image nor UTF-8. Convert the file, for instance with iconv -f UTF-16",
            ),
            (
                b"\xfc",
                "'in': neither an image nor UTF-8. Convert the file, for instance with iconv -f LATIN1",
            ),
            (b"", "'in': the text is empty"),
            (b" \n", "'in': the text is empty"),
        ],
    )
    def test_other_files_are_refused(
        self,
        engines: list[ImageEngine],
        content: bytes,
        message: str,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        Path("in").write_bytes(content)
        assert extract("in") == 2
        assert message in capsys.readouterr().err
        assert engines == []

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                ["--image", "none.png"],
                "--image: cannot read the image file 'none.png': No such file",
            ),
            (["--image", "."], "--image: cannot read the image file '.': Is a directory"),
            (["--jsonl", "red.png", "blue.png"], "jsonl is that of a single file, not of 2 files"),
            (["red.png", "none.png"], "cannot read 'none.png': No such file"),
            (["red.png", "a\0b"], "cannot read 'a\\x00b'"),
            (["red.png", "--output", "red.png", "--overwrite"], "names no format of an output"),
            (["--image", "red", "--output", "red", "--overwrite"], "is the input"),
            (["red.png", "red", "--output", "red", "--overwrite"], "is the input"),
        ],
    )
    def test_wrong_arguments_are_refused(
        self,
        engines: list[ImageEngine],
        arguments: list[str],
        message: str,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        Path("red").write_bytes(image_bytes("red"))
        assert extract(*arguments) == 2
        assert message in capsys.readouterr().err
        assert engines == []
        assert Path("red").read_bytes() == Path("red.png").read_bytes()
        assert Path("red.png").read_bytes() == image_bytes("red")


@pytest.mark.usefixtures("directory")
class TestLines:
    def test_paths_are_relative_to_the_input_file(
        self,
        engines: list[ImageEngine],
        directory: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        lines = [
            {"image": "red.png"},
            {"text": "two", "image": ["green.png", str(directory / "blue.png")]},
            {"text": None, "image": "https://example.org/a.png", "id": 3},
            {"text": "none", "image": []},
            "a string",
        ]
        Path("lines").write_text("\n".join(map(json.dumps, lines)))
        Path("elsewhere").mkdir()
        monkeypatch.chdir("elsewhere")
        assert main(["extract", "--schema", "../schema.json", "--jsonl", "../lines"]) == 0
        red, green, blue = map(image_bytes, ("red", "green", "blue"))
        expected = [[red], [green, blue], ["https://example.org/a.png"], [], []]
        assert engines[0].images == expected
        results = map(json.loads, capsys.readouterr().out.splitlines())
        assert [result["n"] for result in results] == [1, 2, 1, 0, 0]

    def test_paths_on_standard_input_are_relative_to_the_working_directory(
        self, engines: list[ImageEngine], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        give_input(monkeypatch, b'{"image": "red.png"}\n')
        assert extract("--jsonl") == 0
        assert engines[0].images == [[image_bytes("red")]]

    @pytest.mark.usefixtures("engines")
    def test_failed_images_affect_no_other_lines(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("damaged.png").write_bytes(b"\x89PNG\r\n\x1a\n damaged")
        lines: list[Any] = [
            {"image": "red.png"},
            {"image": "none.png"},
            {"image": 3},
            {"image": ["red.png", 3]},
            {"image": "a\0b"},
            {"text": " ", "image": []},
            {"text": 3, "image": "red.png"},
            {"image": "damaged.png"},
            {"image": "blue.png"},
        ]
        Path("lines").write_text("\n".join(map(json.dumps, lines)))
        assert extract("--jsonl", "lines") == 1
        out, err = capsys.readouterr()
        results = [json.loads(line) for line in out.splitlines()]
        failed = [result["error"]["line"] for result in results if "error" in result]
        assert failed == [2, 3, 4, 5, 6, 7, 8]
        assert "line 2: cannot read the image file 'none.png': No such file" in err
        assert "line 3: an image should be a path, a URL, bytes or an image of Pillow, not 3" in err
        assert "line 8: the image is damaged" in err

    def test_images_are_read_as_the_engine_needs_them(
        self, engines: list[ImageEngine], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        unread = {f"{number}.png" for number in range(40)}
        for name in unread:
            Path(name).write_bytes(image_bytes("red"))
        Path("lines").write_text("\n".join(f'{{"image": "{n}.png"}}' for n in range(40)))
        item = ImageEngine.item
        unread_counts: list[int] = []

        def reading(path: Path) -> bytes:
            unread.discard(path.name)
            with path.open("rb") as file:
                return file.read()

        def recording(engine: ImageEngine, index: int, prompt: Any) -> stand_in_engine.Item:
            unread_counts.append(len(unread))
            return item(engine, index, prompt)

        monkeypatch.setattr(Path, "read_bytes", reading)
        monkeypatch.setattr(ImageEngine, "item", recording)
        assert extract("--jsonl", "lines", "--batch-size", 2) == 0
        ahead = 2 * stand_in_engine.REQUESTS_AHEAD
        assert unread_counts == [max(0, 40 - ahead - index) for index in range(40)]


@pytest.mark.usefixtures("directory")
class TestFiles:
    def test_each_file_has_a_line_in_order(
        self, engines: list[ImageEngine], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert extract("red.png", "note.txt", "photo.txt") == 0
        out, err = capsys.readouterr()
        assert [json.loads(line)["n"] for line in out.splitlines()] == [1, 0, 1]
        assert engines[0].texts[1].endswith("BMW sold three cars.")
        assert err.startswith("3 files in ")

    def test_named_images_are_read_with_each_record(
        self, engines: list[ImageEngine], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        give_input(monkeypatch, b"from a pipe")
        flags = ("--image", "green.png", "--quiet")
        assert extract("red.png", "note.txt", "-", *flags) == 0
        green = image_bytes("green")
        assert engines[0].images == [[green, image_bytes("red")], [green], [green]]
        assert engines[0].texts[2].endswith("from a pipe")
        Path("lines").write_text('"one"\n{"image": "red.png"}\n')
        assert extract("--jsonl", "lines", *flags) == 0
        assert engines[1].images == [[green], [green, image_bytes("red")]]

    @pytest.mark.usefixtures("engines")
    def test_failure_names_its_file(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("broken.bin").write_bytes(b"\xff\xfe")
        assert extract("red.png", "broken.bin", "blue.png") == 1
        out, err = capsys.readouterr()
        error = json.loads(out.splitlines()[1])["error"]
        assert error["file"] == "broken.bin"
        assert "1 of 3 files failed" in err
        assert "proxy-engine: 'broken.bin': neither an image nor UTF-8" in err

    def test_pattern_that_matches_one_file_can_be_resumed(self, engines: list[ImageEngine]) -> None:
        for _ in range(2):
            assert extract("red.png", "--output", "out", "--resume", "--quiet") == 0
            assert Path("out").read_bytes().count(b"\n") == 1
        assert len(engines) == 1

    @pytest.mark.usefixtures("engines")
    def test_output_of_other_files_is_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("broken.bin").write_bytes(b"\xff\xfe")
        Path("other.bin").write_bytes(b"\xff\xfe")
        assert extract("red.png", "broken.bin", "--output", "out", "--quiet") == 1
        capsys.readouterr()
        assert extract("red.png", "other.bin", "--output", "out", "--resume") == 2
        assert "row 2 is not that of 'other.bin'" in capsys.readouterr().err


@pytest.mark.usefixtures("directory")
class TestTextModel:
    @pytest.fixture(autouse=True)
    def _of_text(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ImageEngine, "input_modalities", frozenset({"text"}))

    @pytest.mark.parametrize("arguments", [["--image", "red.png"], ["red.png", "blue.png"]])
    def test_images_are_refused_once(
        self,
        engines: list[ImageEngine],
        arguments: list[str],
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        assert extract(*arguments) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err == (
            "proxy-engine: the model 'none' does not read images. "
            "Name a multimodal model with --model.\n"
        )
        assert engines[0].texts == []

    @pytest.mark.usefixtures("engines")
    def test_lines_before_an_image_are_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Path("lines").write_text('"one"\n"two"\n{"image": "red.png"}\n"four"\n')
        flags = ("--jsonl", "lines", "--output", "out", "--quiet", "--batch-size", 1)
        assert extract(*flags) == 1
        assert Path("out").read_bytes() == b""
        monkeypatch.setattr(ImageEngine, "input_modalities", frozenset({"text", "image"}))
        assert extract(*flags, "--resume") == 0
        results = map(json.loads, Path("out").read_text().splitlines())
        assert [result["n"] for result in results] == [0, 0, 1, 0]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return vision_checkpoint("qwen2_vl", tmp_path_factory.mktemp("qwen2_vl"))


class TestRandomModel:
    """A small multimodal model with random weights."""

    @pytest.fixture
    def schema(self, directory: Path) -> Any:
        schema = closed_object(shop={"type": "string", "maxLength": 8}, paid={"type": "boolean"})
        (directory / "schema.json").write_text(json.dumps(schema))
        return schema

    def test_answers_equal_those_of_the_engine(
        self, model: Path, schema: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        whole = image_bytes("red")
        Path("cut.png").write_bytes(whole[:-20])
        files = ("red.png", "note.txt", "cut.png", "photo.txt", "blue.png")
        assert extract("--model", model, *files, "--temperature", 0, "--batch-size", 2) == 1
        lines = capsys.readouterr().out.splitlines()
        error = json.loads(lines[2])["error"]
        assert error["file"] == "cut.png"
        assert error["type"] == "MediaError"
        assert "the PNG image is damaged or cut off" in error["message"]
        text = INSTRUCTION.replace("n, text", "shop, paid")
        with InferenceEngine(model, on_progress=None) as engine:
            for line, name in zip(lines, files, strict=True):
                if name in ("note.txt", "cut.png"):
                    continue
                turn = Interaction("user", [ImageContent(path=name), TextContent(text)])
                single = engine.generate([turn], response_format=schema, temperature=0.0)
                assert line == single.text
        assert len({lines[0], lines[3], lines[4]}) > 1

    @pytest.mark.usefixtures("schema")
    def test_images_together_are_one_record(
        self, model: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        flags = ("--model", model, "--temperature", 0, "--quiet")
        assert extract(*flags, "--image", "red.png", "--image", "photo.txt", "note.txt") == 0
        together = capsys.readouterr().out
        record = {"text": "BMW sold three cars.", "image": ["red.png", "photo.txt"]}
        Path("lines").write_text(json.dumps(record))
        assert extract(*flags, "--jsonl", "lines") == 0
        assert capsys.readouterr().out == together

    @pytest.mark.usefixtures("schema")
    def test_single_damaged_image_is_a_failure(
        self, model: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("cut.png").write_bytes(image_bytes("red")[:-20])
        assert extract("--model", model, "--image", "cut.png", "--quiet") == 1
        assert "messages[0].content[0]: the PNG image is damaged" in capsys.readouterr().err
