r"""Markdown documents as one tree of folders, files and sections: the PageIndex.

No models, no network, no settings files: text in, nodes with line spans out.

    from pageindex.document import parse_document

    document = parse_document("guide.md", "# Guide\n\nText.\n")
    print([placed.node.citation for placed in document.nodes])
"""
