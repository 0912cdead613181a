"""YAML as people write it: no aliases, no deep nesting, no key twice. What else YAML can do is only ever used to harm.

Pure Python on purpose: libyaml's stack overflows on nested brackets, which ends the process. A module of its own,
because PyYAML takes a sixth of the time of --help, which reads none.
"""

from collections import Counter
from typing import Any

import yaml

# Python refuses to print an integer of more than 4,300 digits, and a hexadecimal one can be made of any length.
MAX_NUMBER_CHARS = 100
MAX_NESTING = 20  # what people write is two or three deep; the parser recurses once for each level


class PlainYamlError(ValueError):
    """It is YAML, and not plain; the message is a clause."""


class PlainLoader(yaml.SafeLoader):
    """Composes and constructs values, refusing what a hostile text would use.

    Raises:
        PlainYamlError: for an alias, for what is nested too deep, for a key that a mapping has twice.
    """

    nesting = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose one value."""
        if self.check_event(yaml.AliasEvent):
            raise PlainYamlError("it uses YAML aliases")
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise PlainYamlError(f"it is nested more than {MAX_NESTING} deep")
        node = super().compose_node(parent, index)
        self.nesting -= 1
        if isinstance(node, yaml.MappingNode):
            keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
            for key, count in keys.items():  # two keys are one when they are written alike
                if count > 1:
                    raise PlainYamlError(f"it has the key {key!r} twice")
        return node

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:  # noqa: ANN401 - as PyYAML declares it
        """Make a value of a scalar."""
        if node.tag.endswith((":int", ":float")) and len(node.value) > MAX_NUMBER_CHARS:
            raise PlainYamlError(f"it has a number of more than {MAX_NUMBER_CHARS} characters")
        return super().construct_scalar(node)


def read_plain_yaml(text: str) -> object:
    """The value of a YAML text; None for an empty one. Raises PlainYamlError when it is no YAML, or not plain."""
    try:
        return yaml.load(text, Loader=PlainLoader)
    except PlainYamlError:
        raise
    # Of a month 13, of `!!bool perhaps`, of `!!int`: PyYAML lets through whatever its constructors raise.
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, OverflowError) as error:
        raise PlainYamlError(" ".join(str(error).split())) from error
