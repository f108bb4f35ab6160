#!/usr/bin/env bash
# pydantic refuses a duration of 2**32 seconds or more in hours, minutes or seconds.
#
# Versions: pydantic 2.14.4, Python 3.11.
#
# A timedelta holds 999,999,999 days, and pydantic reads P999999999D. Hours, minutes and seconds are
# added up in 32 bits: PT4294967295S (136 years) is read, PT4294967296S is refused as "a numeric value
# in the duration is too large", and so are PT1193047H and PT1193046H3600S, whose sums are beyond it.
# Other programs write such durations: java.time.Duration has no days, so 137 years are PT1200120H.
#
# Exits with 0 while pydantic behaves like this.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet "pydantic==2.14.4"
cat > "$folder/probe.py" <<'PYTHON'
from datetime import timedelta

from pydantic import TypeAdapter, ValidationError

durations = TypeAdapter(timedelta)
assert durations.validate_python("P999999999D") == timedelta(days=999_999_999)
assert durations.validate_python("PT4294967295S") == timedelta(seconds=2**32 - 1)
for text in ("PT4294967296S", "PT1193047H", "PT1200120H", "PT1193046H3600S"):
    try:
        found = durations.validate_python(text)
    except ValidationError as error:
        message = error.errors()[0]["msg"]
        print(text, message)
        assert message.endswith("a numeric value in the duration is too large"), message
    else:
        raise SystemExit(f"{text} is read as {found}")
PYTHON
"$folder/env/bin/python" "$folder/probe.py"
