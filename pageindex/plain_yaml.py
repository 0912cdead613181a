"""YAML as people write it: without aliases, which are only ever used to harm.

Pure Python on purpose: libyaml's stack overflows on nested brackets, which ends the process. A module of its own,
because PyYAML takes a sixth of the time of --help, which reads none.
"""

from typing import Any

import yaml
from yaml.composer import Composer
from yaml.parser import Parser


class PlainYamlError(ValueError):
    """It is no YAML, or not plain; the message is a clause."""


class _PlainComposer(Parser, Composer):
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise PlainYamlError("it uses YAML aliases")
        return super().compose_node(parent, index)

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        mapping = super().compose_mapping_node(anchor)
        lines: dict[str, int] = {}
        for key in (key for key, _ in mapping.value if isinstance(key, yaml.ScalarNode)):
            line = key.start_mark.line + 1
            if key.value in lines:  # PyYAML lets the last one count
                raise PlainYamlError(f"{key.value!r} is given twice, in lines {lines[key.value]} and {line}")
            lines[key.value] = line
        return mapping


class _Values(_PlainComposer, yaml.SafeLoader):
    pass


class _Texts(_PlainComposer, yaml.BaseLoader):
    pass


def read_plain_yaml(text: str, *, as_written: bool = False) -> object:
    """Return the value of a YAML text; None for an empty one.

    Args:
        text: of one document.
        as_written: whether scalars are texts as they stand there (`2.10`), and not numbers, dates and the like.

    Raises:
        PlainYamlError: it is no YAML, or not plain.
    """
    try:
        return yaml.load(text, Loader=_Texts if as_written else _Values)
    except yaml.MarkedYAMLError as error:
        place = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise PlainYamlError(" ".join(filter(None, (error.context, error.problem))) + place) from error
    except PlainYamlError:
        raise
    # Of a month 13, of `!!bool perhaps`, of `!!int`: PyYAML lets through whatever its constructors raise.
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, OverflowError, RecursionError) as error:
        raise PlainYamlError(" ".join(str(error).split())) from error
