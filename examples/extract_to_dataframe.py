"""Extract properties from the rows of a data frame: ``python extract_to_dataframe.py``.

The result is a data frame with the columns of the input and a column for each property.
"""

from typing import Literal

import pandas
from pydantic import BaseModel, Field

from proxy_engine import InferenceEngine


class Review(BaseModel):
    """Properties of a product review."""

    product: str = Field(max_length=30)
    sentiment: Literal["positive", "neutral", "negative"]
    stars: int = Field(ge=1, le=5)


REVIEWS = pandas.DataFrame(
    {
        "id": [101, 102, 103],
        "body": [
            "The kettle boils quickly and looks great.",
            "Headphones broke after two weeks. Never again!",
            None,
        ],
    }
)


def main() -> None:
    """Print the reviews with their properties, and the errors."""
    with InferenceEngine() as engine:
        reviews = engine.extract(REVIEWS, Review, text="body", temperature=0)
    print(reviews.to_frame().to_string())
    for index, error in reviews.errors.items():
        print(f"row {index}: {error}")


if __name__ == "__main__":
    main()
