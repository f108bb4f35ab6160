"""An agent that calls tools until it can answer: ``python examples/agent_loop.py [QUESTION]``.

The arguments of every call match the signatures of the functions, and the answer is an object.
"""

import sys
from typing import Literal

from pydantic import BaseModel, Field

from proxy_engine import InferenceEngine, Interaction, Role

STOCK = {"apples": 12, "pears": 0, "plums": 40}


class Answer(BaseModel):
    text: str = Field(max_length=120)
    is_certain: bool


def in_stock(fruit: Literal["apples", "pears", "plums"]) -> int:
    """Return the number of pieces in stock."""
    return STOCK[fruit]


def order(fruit: Literal["apples", "pears", "plums"], pieces: int) -> str:
    """Order pieces of a fruit from the supplier."""
    if not 1 <= pieces <= 100:
        # The model reads the message, and can call the tool again.
        raise ValueError("pieces should be from 1 to 100")
    return f"ordered {pieces} {fruit}"


def show(message: Interaction) -> None:
    """Print a message of the conversation."""
    for call in message.tool_calls:
        print(f"-> {call.name} {call.arguments}")
    if message.role is Role.TOOL:
        print(f"<- {message.text}")


def main(question: str) -> Answer:
    """Answer a question with tools, and return the answer."""
    with InferenceEngine() as engine:
        run = engine.run_tools(
            [
                {"role": "system", "content": "You keep the stock of a shop."},
                {"role": "user", "content": question},
            ],
            [in_stock, order],
            response_format=Answer,
            max_rounds=2,
            max_tokens=100,
            on_turn=show,
        )
    answer = run.result.parsed
    assert answer is not None, "after the last round, the model has to answer"
    print(answer.text)
    return answer


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "Are there enough pears for 20 pies?")
