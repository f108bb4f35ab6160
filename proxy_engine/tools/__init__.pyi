"""The names of the package. ``lazy_loader`` reads their modules from this stub."""

from .call_parsing import ParsedToolCalls as ParsedToolCalls
from .call_parsing import parse_tool_calls as parse_tool_calls
from .choice import ToolChoice as ToolChoice
from .choice import ToolChoiceMode as ToolChoiceMode
from .choice import resolve_tools as resolve_tools
from .definitions import resolve_tool as resolve_tool
from .definitions import tool_from_dict as tool_from_dict
from .definitions import tool_from_function as tool_from_function
from .definitions import tool_from_type as tool_from_type
from .input_format import InputFormat as InputFormat
from .tool import Tool as Tool
from .tool import tool_schema_errors as tool_schema_errors
