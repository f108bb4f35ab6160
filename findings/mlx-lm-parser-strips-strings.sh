#!/usr/bin/env bash
# mlx-lm 0.32.2: the tool parser of GLM 4.5 to 5 (tool_parsers/glm47.py) strips white space from string
# arguments, which the models' chat templates write as they are. An edit of indented code loses its
# indentation and the last line feed, and a separator such as "\n" becomes an empty string.
#
# Output seen (mlx-lm 0.32.2, Python 3.11):
#   written '    return 1\n', read 'return 1'
#   written '\n', read ''
set -euo pipefail
directory="$(mktemp -d)"
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
pip="$directory/venv/bin/pip"
"$pip" download --quiet --disable-pip-version-check --no-deps --dest "$directory" "mlx-lm==0.32.2" 2>/dev/null
"$pip" install --quiet --disable-pip-version-check "regex" 2>/dev/null
"$directory/venv/bin/python" -m zipfile -e "$directory"/mlx_lm-*.whl "$directory/mlx-lm"
# The module of the parser needs neither mlx nor the rest of the package.
"$directory/venv/bin/python" - "$directory/mlx-lm/mlx_lm/tool_parsers/glm47.py" <<'PY'
import importlib.util
import sys

spec = importlib.util.spec_from_file_location("glm47", sys.argv[1])
glm47 = importlib.util.module_from_spec(spec)
spec.loader.exec_module(glm47)
parameters = {"type": "object", "properties": {"new_text": {"type": "string"}}}
tools = [{"type": "function", "function": {"name": "edit", "parameters": parameters}}]
found = []
for written in ("    return 1\n", "\n"):
    call = f"edit<arg_key>new_text</arg_key><arg_value>{written}</arg_value>"
    parsed = glm47.parse_tool_call(call, tools)
    found.append(parsed["arguments"]["new_text"])
    print(f"written {written!r}, read {found[-1]!r}")
sys.exit(found != ["return 1", ""])
PY
