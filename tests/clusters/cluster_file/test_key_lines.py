"""Key lines: whatever the standard parser finds in a text has its line, however the text is laid out."""

from __future__ import annotations

import tomllib
from textwrap import dedent

from hypothesis import given
from hypothesis import strategies as st

from schemaquake.clusters.cluster_file.lines import key_lines, line_of


def lines(text):
    text = dedent(text).lstrip("\n")
    tomllib.loads(text)
    return key_lines(text)


def test_keys_of_a_table_and_the_table_itself():
    found = lines("""
        provider = "ssh"

        [paths]   # where things lie
        state = "/run"
        [service . environment]
        A = 1
    """)
    assert found == {
        ("provider",): 1,
        ("paths",): 3,
        ("paths", "state"): 4,
        ("service",): 5,
        ("service", "environment"): 5,
        ("service", "environment", "A"): 6,
    }


def test_arrays_of_tables_count_their_elements_and_what_lies_below_them():
    found = lines("""
        [[nodes]]
        address = 1
        [nodes.ssh]
        port = 22
        [[nodes]]
        address = 2
        [[nodes.disks]]
        size = 1
        [[nodes.disks]]
        size = 2
        [nodes.disks.kind]
        name = "x"
    """)
    assert found == {
        ("nodes",): 1,
        ("nodes", 0): 1,
        ("nodes", 0, "address"): 2,
        ("nodes", 0, "ssh"): 3,
        ("nodes", 0, "ssh", "port"): 4,
        ("nodes", 1): 5,
        ("nodes", 1, "address"): 6,
        ("nodes", 1, "disks"): 7,
        ("nodes", 1, "disks", 0): 7,
        ("nodes", 1, "disks", 0, "size"): 8,
        ("nodes", 1, "disks", 1): 9,
        ("nodes", 1, "disks", 1, "size"): 10,
        ("nodes", 1, "disks", 1, "kind"): 11,
        ("nodes", 1, "disks", 1, "kind", "name"): 12,
    }


def test_dotted_keys_open_the_tables_they_go_through():
    found = lines("""
        # nothing here
        ssh.jump.host = "a"
        ssh . port = 2
    """)
    assert found == {("ssh",): 2, ("ssh", "jump"): 2, ("ssh", "jump", "host"): 2, ("ssh", "port"): 3}


def test_inline_tables_and_arrays_over_several_lines():
    found = lines(
        """
        nodes = [ # two
          { address = "a", ssh = { port = 1, jump.host = "j" } },
          # between
          {
        }]
        allow = ["kill",
                 "pause",]
        empty = []
        none = {}
    """.replace("{\n        }", "{ }")
    )
    assert found == {
        ("nodes",): 1,
        ("nodes", 0): 2,
        ("nodes", 0, "address"): 2,
        ("nodes", 0, "ssh"): 2,
        ("nodes", 0, "ssh", "port"): 2,
        ("nodes", 0, "ssh", "jump"): 2,
        ("nodes", 0, "ssh", "jump", "host"): 2,
        ("nodes", 1): 4,
        ("allow",): 5,
        ("allow", 0): 5,
        ("allow", 1): 6,
        ("empty",): 7,
        ("none",): 8,
    }  # fmt: skip


def test_what_stands_in_a_text_is_no_key_and_still_counts_its_lines():
    found = lines('''
        a = """one
        [table]
        b = 1"""
        c = \'\'\'
        d = "\'\'\'
        e = "# no comment, and a \\" in it"
        f = '\\'
        g = """ends in quotes"""""
        "quoted.key" = 1
        'single [key]'.x = 1
        "esc\\u0061pe\\"d" = 1
        h = 1979-05-27 07:32:00  # a date
    ''')
    assert found == {
        ("a",): 1,
        ("c",): 4,
        ("e",): 6,
        ("f",): 7,
        ("g",): 8,
        ("quoted.key",): 9,
        ("single [key]",): 10,
        ("single [key]", "x"): 10,
        ('escape"d',): 11,
        ("h",): 12,
    }


def test_a_key_that_is_not_there_is_found_where_it_would_be():
    found = lines("""
        a = 1
        [ssh]
        port = 1
    """)
    assert line_of(found, ("ssh", "port")) == 3
    assert line_of(found, ("ssh", "jump", "host")) == 2
    assert line_of(found, ("nodes", 4)) == 1
    assert line_of(found, ()) == 1


# ── every text there may be ──────────────────────────────────────────────────────────────────────────────────────────

NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=5)
PLAIN = st.integers() | st.booleans() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)


class Written:
    """A document as somebody might lay it out, and the line on which everything begins."""

    def __init__(self, draw):
        self._draw = draw
        self.text = ""
        self.lines = {}

    def _line(self):
        return self.text.count("\n") + 1

    def _one_of(self, *words):
        return self._draw(st.sampled_from(words))

    def _note(self, path, line=None):
        self.lines.setdefault(path, line or self._line())

    def document(self, tables):
        for number, (name, table) in enumerate(tables.items()):
            if isinstance(table, list):
                for at, element in enumerate(table):
                    self.text += self._one_of("", "\n", "# [not] = 'a table'\n")
                    self._note((name,))
                    self._note((name, at))
                    self.text += f"[[{quoted(name)}]]\n"
                    self.pairs((name, at), element)
            else:
                self.text += self._one_of("", "\n\n")
                self._note((name,))
                self.text += f"[ {quoted(name)} ] # {number}\n"
                self.pairs((name,), table)

    def pairs(self, path, table):
        for key, value in table.items():
            self.text += self._one_of("", "  ", "# comment = 1\n")
            self._note((*path, key))
            self.text += quoted(key) + self._one_of("=", " = ")
            self.value((*path, key), value)
            self.text += self._one_of("\n", " # end\n", "\r\n")

    def value(self, path, value):
        match value:
            case bool():
                self.text += str(value).lower()
            case int():
                self.text += str(value)
            case str():
                self.string(value)
            case list():
                self.text += "["
                for at, element in enumerate(value):
                    self.text += self._one_of("", "\n", " # ], }\n  ")
                    self._note((*path, at))
                    self.value((*path, at), element)
                    self.text += self._one_of(",", " ,", "\n,")
                self.text += "]"
            case dict():
                self.text += "{"
                for at, (key, element) in enumerate(value.items()):
                    self.text += ", " if at else " "
                    self._note((*path, key))
                    self.text += f"{quoted(key)} = "
                    self.value((*path, key), element)
                self.text += "}"

    def string(self, value):
        if self._one_of("basic", "long") == "long":
            self.text += '"""\n' + "\n".join(escaped(line) for line in value.split("\n")) + '"""'
        else:
            self.text += f'"{escaped(value)}"'


def escaped(text):
    return "".join(f"\\U{ord(letter):08X}" if letter in '"\\' or ord(letter) < 32 or ord(letter) == 127 else letter for letter in text)  # fmt: skip


def quoted(key):
    plain = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
    return key if plain and key else f'"{escaped(key)}"'


@st.composite
def documents(draw):
    tables = draw(
        st.dictionaries(
            NAMES,
            st.dictionaries(NAMES, VALUES, max_size=3)
            | st.lists(st.dictionaries(NAMES, VALUES, max_size=2), min_size=1, max_size=3),
            max_size=4,
        )
    )
    written = Written(draw)
    written.document(tables)
    return tables, written.text, written.lines


@given(documents())
def test_everything_that_the_parser_finds_has_the_line_on_which_it_was_written(drawn):
    tables, text, where = drawn
    assert tomllib.loads(text) == tables
    assert key_lines(text) == where
