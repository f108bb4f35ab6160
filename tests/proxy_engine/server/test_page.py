"""The page in a real browser, used by keyboard."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import re
import shutil
import subprocess
import wave
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from browser import CHROMIUM, CONTROL, DRIVER, ENTER, ESCAPE, TAB, Browser, browsing
from live_server import Live, make_settings, serving, serving_engine
from recordings import sine, wav
from tiny_whisper import write_tiny_whisper

from proxy_engine import InferenceEngine
from proxy_engine.server.app import create_app

needs_browser = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="there is no Chromium here")

_STATUS = "return document.getElementById('status').textContent"
_TOKENS = (
    "return [...document.querySelectorAll('.token')].map(token => ({"
    " text: token.textContent, forced: token.classList.contains('forced'),"
    " part: token.parentElement.dataset.part,"
    " colour: getComputedStyle(token.parentElement).backgroundColor }))"
)
_RULE = "document.getElementById('rule').value = arguments[0]"
# Pretends that the model in memory reads these as well.
_READS = "models[0].input_modalities.push(...arguments); showInputs()"
_SPEECH = "models.push({id: 'speech', input_modalities: ['audio']}); showInputs()"
# Drops two images, or pastes them.
_ADD_IMAGES = """
const canvas = document.createElement('canvas');
canvas.width = 30;
canvas.height = 20;
canvas.toBlob((blob) => {
  const given = new DataTransfer();
  for (const name of ['a.png', 'b.png']) given.items.add(new File([blob], name, {type: 'image/png'}));
  const event = arguments[0] === 'drop' ? new DragEvent('drop', {dataTransfer: given})
    : new ClipboardEvent('paste', {clipboardData: given});
  document.dispatchEvent(event);
})
"""
_THUMBNAILS = "return [...document.querySelectorAll('#thumbnails img')]"
# Answers requests for transcripts, and keeps the file.
_TRANSCRIBE = """
const real = window.fetch;
window.fetch = async (url, given) => {
  if (!url.endsWith('/audio/transcriptions')) return real(url, given);
  const file = given.body.get('file');
  window.sent = {name: file.name, model: given.body.get('model'),
    bytes: [...new Uint8Array(await file.arrayBuffer())]};
  return new Response(JSON.stringify({text: ' in Peru '}));
}
"""
_KIND = (
    "const kind = document.querySelector(`[name=kind][value=${arguments[0]}]`); kind.focus();"
    "kind.checked = true; kind.dispatchEvent(new Event('change', {bubbles: true}))"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as browser:
        yield browser


def done(browser: Browser) -> str:
    status: str = browser.wait_for(f"{_STATUS}.startsWith('Running') ? '' : {_STATUS[7:]}")
    return status


def test_page_is_one_file_without_markup_injection() -> None:
    text = files("proxy_engine.server").joinpath("page.html").read_text(encoding="utf-8")
    assert not re.search(r"(src|href)\s*=|@import|\burl\(|https?://", text)
    # Generated text is never inserted as markup.
    assert "innerHTML" not in text


@needs_browser
def test_page_runs_by_keyboard(browser: Browser, live: Live) -> None:
    browser.open(f"{live.url}/")
    browser.wait_for("return document.getElementById('model').options.length")
    browser.keys(TAB)
    assert browser.run("return document.activeElement.id") == "prompt"
    browser.write("Hi")
    browser.keys(CONTROL, ENTER)
    assert done(browser).startswith("Done: ")
    tokens = browser.run(_TOKENS)
    answer = json.loads(
        "".join(t["text"] for t in tokens if t["part"] == "structured" and "|" not in t["text"])
    )
    assert set(answer) == {"city", "country", "sights", "coastal"}
    # The parsed answer has a line for each member.
    shown = browser.run("return document.getElementById('answer').innerText")
    assert json.loads(shown) == answer
    assert shown.startswith('{\n  "city": ')
    assert any(token["forced"] for token in tokens)
    timings = browser.run("return document.getElementById('timings').innerText")
    assert f"{len(tokens)} tokens" in timings
    assert "masks" in timings


@needs_browser
def test_every_control_is_focusable_and_labelled(browser: Browser, live: Live) -> None:
    browser.open(f"{live.url}/")
    reached = []
    for _ in range(14):
        browser.keys(TAB)
        reached.append(
            browser.run("return document.activeElement.id || document.activeElement.name")
        )
    controls = {"prompt", "kind", "rule", "max", "temperature", "reasoning", "model", "seed", "key"}
    assert controls | {"run", "output"} <= set(reached)
    unnamed = browser.run(
        "return [...document.querySelectorAll('input, select, textarea, button')]"
        ".filter(e => !(e.labels?.length || e.textContent)).map(e => e.id)"
    )
    assert unnamed == []


@needs_browser
@pytest.mark.parametrize(
    ("kind", "rule", "part"),
    [
        ("choice", "a dog\na donkey", "structured"),
        ("tools", None, "tool_call"),
        ("text", None, "text"),
    ],
)
def test_page_shows_each_answer_format(
    browser: Browser, live: Live, kind: str, rule: str | None, part: str
) -> None:
    browser.open(f"{live.url}/")
    browser.run(_KIND, kind)
    assert browser.run("return document.getElementById('rule-box').hidden") == (kind == "text")
    if rule is not None:
        browser.run(_RULE, rule)
    browser.keys(CONTROL, ENTER)
    assert done(browser).startswith("Done: ")
    tokens = browser.run(_TOKENS)
    assert part in {token["part"] for token in tokens}
    assert len({token["colour"] for token in tokens}) == len({token["part"] for token in tokens})


@needs_browser
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_conversation_goes_on_and_is_copied(browser: Browser, live: Live) -> None:
    browser.open(f"{live.url}/")
    browser.wait_for("return document.getElementById('model').options.length")
    browser.run(_KIND, "tools")
    browser.run("document.getElementById('prompt').value = \"Lima's weather?\"")
    browser.keys(CONTROL, ENTER)
    assert done(browser).startswith("Done: ")
    calls = (
        "return [...document.querySelectorAll('#answer .call strong')].map(name => name.innerText)"
    )
    assert set(browser.run(calls)) == {"weather"}
    browser.run("document.getElementById('reply').click()")
    # The focus is on the field for the result of a call; the prompt may stay empty.
    browser.write("rain")
    browser.run(_KIND, "choice")
    browser.run(_RULE, "wet\ndry")
    browser.keys(CONTROL, ENTER)
    assert done(browser) == "Done: stop."
    messages = browser.run("return request().messages")
    assert [message["role"] for message in messages][:3] == ["user", "assistant", "tool"]
    assert messages[2]["content"] == "rain"
    # Both copies are programs that send the same request.
    text = browser.run("return asCurl(request())").replace("curl", "curl -s", 1)
    run = subprocess.run(["sh", "-c", text], capture_output=True, check=True)
    answer = json.loads(run.stdout)["choices"][0]["message"]["content"]
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(browser.run("return asPython(request())"), {})
    assert {answer, output.getvalue().strip()} <= {"wet", "dry"}
    browser.run("document.getElementById('clear').click()")
    assert browser.run("return request().messages.length") == 1


@needs_browser
def test_page_shows_long_numbers_as_they_are(browser: Browser, live: Live) -> None:
    browser.open(f"{live.url}/")
    text = '{"a": [], "b": {"c": 9007199254740993}, "d": "{, \\"}"}'
    shown = browser.run("return readable(arguments[0]).textContent", text)
    assert shown == (
        '{\n  "a": [],\n  "b": {\n    "c": 9007199254740993\n  },\n  "d": "{, \\"}"\n}'
    )


@needs_browser
def test_page_shows_errors(browser: Browser, live: Live) -> None:
    browser.open(f"{live.url}/")
    browser.run(_RULE, "{")
    browser.keys(CONTROL, ENTER)
    assert done(browser).startswith("This is not JSON")
    browser.run(_RULE, '{"minimum": "a"}')
    browser.keys(CONTROL, ENTER)
    browser.wait_for(f"{_STATUS}.includes('#/minimum')")
    # The control with the error is marked.
    marked = "return [...document.querySelectorAll('[aria-invalid]')].map(control => control.id)"
    assert browser.run(marked) == ["rule"]
    assert browser.run("return document.getElementById('status').className") == "error"


@needs_browser
def test_escape_stops_the_answer(browser: Browser, live: Live) -> None:
    browser.open(f"{live.url}/")
    browser.run(_KIND, "regex")
    browser.run(_RULE, "[a-z]{2500}")
    browser.run("document.getElementById('max').value = 3000")
    browser.keys(CONTROL, ENTER)
    browser.wait_for("return document.querySelectorAll('.token').length > 3")
    browser.keys(ESCAPE)
    assert done(browser) == "Stopped."
    assert browser.run("return document.querySelectorAll('.token').length") < 2000


@needs_browser
def test_page_asks_for_the_api_key(browser: Browser, roomy_engine: InferenceEngine) -> None:
    with serving_engine(roomy_engine, api_key="k") as live:
        browser.open(f"{live.url}/")
        browser.wait_for(f"{_STATUS}.includes('needs an API key')")
        browser.run("document.getElementById('key').focus()")
        browser.write("k")
        browser.keys(TAB)
        browser.wait_for("return document.getElementById('model').options.length")
        browser.keys(CONTROL, ENTER)
        assert done(browser).startswith("Done: ")


@needs_browser
def test_fields_for_media_need_a_model_that_reads_them(browser: Browser, live: Live) -> None:
    browser.open(f"{live.url}/")
    note = browser.wait_for("return document.getElementById('media-note').textContent")
    assert note == "This model reads no images. This server has no speech model."
    hidden = "return ['image-box', 'speech-box'].map(id => document.getElementById(id).offsetHeight == 0)"
    assert browser.run(hidden) == [True, True]
    browser.run(_READS, "image")
    assert browser.run(hidden) == [False, True]
    browser.run(_SPEECH)
    assert browser.run(hidden) == [False, False]
    assert browser.run("return document.getElementById('media-note').textContent") == ""


@needs_browser
@pytest.mark.parametrize("way", ["drop", "paste"])
def test_images_are_shown_sent_and_removed(browser: Browser, live: Live, way: str) -> None:
    browser.open(f"{live.url}/")
    browser.wait_for("return models.length")
    browser.run(_READS, "image")
    browser.run(_ADD_IMAGES, way)
    browser.wait_for(f"{_THUMBNAILS}.filter(image => image.naturalWidth === 30).length === 2")
    parts = browser.run("return request().messages[0].content")
    assert [part["type"] for part in parts] == ["image_url", "image_url", "text"]
    data = base64.b64decode(parts[0]["image_url"]["url"].partition(",")[2])
    assert data.startswith(b"\x89PNG")
    # A button for each image, found by its name.
    browser.run("document.querySelector('#thumbnails button').focus()")
    assert browser.run("return document.activeElement.ariaLabel") == "Remove a.png"
    browser.keys(ENTER)
    assert browser.run(f"{_THUMBNAILS}.map(image => image.alt)") == ["b.png"]
    assert browser.run("return request().messages[0].content.length") == 2


@needs_browser
def test_model_answers_about_an_image(browser: Browser, vision: Live) -> None:
    browser.open(f"{vision.url}/")
    browser.wait_for("return models.length")
    assert browser.run("return document.getElementById('image-box').offsetHeight") > 0
    browser.run(_KIND, "choice")
    browser.run(_RULE, "a cat\na dog")
    browser.run(_ADD_IMAGES, "drop")
    browser.wait_for(f"{_THUMBNAILS}.length === 2")
    browser.keys(CONTROL, ENTER)
    assert done(browser) == "Done: stop."
    timings = browser.run("return document.getElementById('timings').innerText")
    assert re.search(r"[1-9]\d* of images", timings)


@needs_browser
def test_recording_becomes_text_of_the_prompt(browser: Browser, live: Live) -> None:
    browser.open(f"{live.url}/")
    browser.wait_for("return models.length")
    browser.run(_SPEECH)
    browser.run(_TRANSCRIBE)
    browser.run(
        "const p = document.getElementById('prompt'); p.value = 'Lima'; p.selectionStart = 4"
    )
    browser.run("document.getElementById('record').focus()")
    browser.keys(ENTER)
    browser.wait_for("return recorder?.state === 'recording'")
    assert browser.run("return document.getElementById('record').textContent") == "Stop recording"
    # The microphone beeps once a second.
    browser.run("return new Promise(resolve => setTimeout(resolve, 1200))")
    browser.keys(ENTER)
    browser.wait_for(f"{_STATUS} === 'Transcribed.'")
    assert browser.run("return document.getElementById('prompt').value") == "Lima in Peru"
    sent = browser.run("return window.sent")
    assert sent["model"] == "speech"
    with wave.open(io.BytesIO(bytes(sent["bytes"]))) as sound:
        assert (sound.getnchannels(), sound.getframerate(), sound.getsampwidth()) == (1, 16000, 2)
        samples = np.frombuffer(sound.readframes(sound.getnframes()), "<i2")
    assert len(samples) > 1000
    assert abs(samples).max() > 1000
    browser.run(
        'window.fetch = async () => new Response(\'{"error": {"message": "no"}}\', {status: 400})'
    )
    browser.run("return transcribe(new Blob(['a']), 'a.wav')")
    assert browser.run(_STATUS) == "no"
    assert browser.run("return document.getElementById('status').className") == "error"


@needs_browser
def test_speech_model_writes_into_the_prompt(
    browser: Browser, tmp_path: Path, tiny_model_directory: Path
) -> None:
    shutil.copytree(tiny_model_directory, tmp_path / "text")
    write_tiny_whisper(tmp_path / "speech")
    settings = make_settings(model=str(tmp_path / "text"), model_directories=str(tmp_path))
    with serving(create_app(settings)) as live:
        browser.open(f"{live.url}/")
        browser.wait_for("return models.length")
        options = "return [...document.getElementById('model').options].map(option => option.value)"
        assert "speech" not in browser.run(options)
        note = browser.run("return document.getElementById('speech-note').textContent")
        assert note.startswith("speech writes")
        browser.run("document.getElementById('record').focus()")
        browser.keys(ENTER)
        browser.wait_for("return recorder?.state === 'recording'")
        browser.run("return new Promise(resolve => setTimeout(resolve, 300))")
        browser.keys(ENTER)
        browser.wait_for(f"{_STATUS} === 'Transcribed.'")
        with live.http() as http:
            assert http.get("/health").json()["model"] == "speech"
            # An answer needs a model that reads text.
            body = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 2}
            reply = http.post("/v1/chat/completions", json=body)
            assert reply.json()["model"] == "text"
            files = {"file": ("a.wav", wav(sine(0.2)))}
            form = {"temperature": "0.1"}
            reply = http.post("/v1/audio/transcriptions", files=files, data=form)
            assert reply.status_code == 200
