"""Fill in a form by voice: ``python examples/voice_form.py [RECORDING] [MODEL]``.

Each token of the transcript is sampled under the form's schema, so what is heard always fits.
Needs the extra ``audio``.
"""

import sys
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from proxy_engine import InferenceEngine

MODEL = "mlx-community/whisper-large-v3-turbo-asr-fp16"
RECORDING = Path(__file__).with_name("call.wav")


class Command(BaseModel):
    action: Literal["call", "redial"]
    digits: str = Field(pattern=r"^\d{7}$")


def main(recording: str, model: str) -> Command:
    """Transcribe a recording into the form, and return it."""
    with InferenceEngine(model) as engine:
        heard = engine.transcribe(recording).text
        command = engine.transcribe(recording, response_format=Command).parsed
    print(f"heard: {heard}")
    print(f"form:  {command}")
    return command


if __name__ == "__main__":
    main(*(sys.argv[1:] + [str(RECORDING), MODEL][len(sys.argv) - 1 :]))
