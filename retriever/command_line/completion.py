"""What a shell may put in when the Tab key is pressed."""

import re

import click
from click.shell_completion import CompletionItem

from retriever.errors import RetrieverError
from retriever.looking.indexes import find_index
from retriever.settings.layers import profile_names


def complete_folder(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="dir")]


def complete_file(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]


def complete_profile(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    names = [CompletionItem(name) for name in profile_names() if name.startswith(incomplete)]
    return names or [CompletionItem(incomplete, type="file")]


# What every shell takes literally: nothing like `status=a;b` is offered.
PLAIN_WORD = re.compile(r"[\w./#][\w./#~:@%+,=-]*")


def complete_condition(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a property of the documents, `status=draft`; those of most documents come first."""
    from retriever.places.choices import list_choices, read_documents  # numpy: 40 ms
    from retriever.store import reading

    try:
        with find_index(context.params.get("index")).read() as connection:
            offered = list_choices(read_documents(connection), reading.fields(connection)).properties
    except RetrieverError:  # an error message would disturb the typing
        return []
    return [CompletionItem(text) for text in offered if text.startswith(incomplete) and PLAIN_WORD.fullmatch(text)]
