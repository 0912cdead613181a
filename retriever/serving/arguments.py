"""The arguments of a call over HTTP or MCP, as fields of a pydantic model: every mistake is named at once."""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from retriever.errors import ParametersError


class Arguments(BaseModel):
    """What a call may be given, and nothing else."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Model = TypeVar("Model", bound=Arguments)


def read_arguments(model: type[Model], given: Mapping[str, object]) -> Model:
    """Return the arguments; ParametersError names every mistake, and what there is."""
    try:
        return model.model_validate(given)
    except ValidationError as error:
        mistakes = "; ".join(f"{str(item['loc'][0])[:100]}: {item['msg']}" for item in error.errors())
        known = ", ".join(field.alias or name for name, field in model.model_fields.items()) or "none"
        raise ParametersError(f"{mistakes}; there are: {known}") from None
