"""POSIX and bash scripts, read as the shell reads them: the grammar.

`read` gives lists of pipelines of commands (see shell_tree). Aliases are not expanded, and what is only
known when the script runs stays an expansion.
"""

from __future__ import annotations

import re

from ...readers.nodes import Comment, ReadError
from .shell_tree import Assignment, Command, Compound, Literal, Pipeline, Redirect, Script, Simple, Word
from .shell_words import BREAKS, Words

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[|\+?=)")
_REDIRECT = re.compile(r"(?P<fd>\d+|\{[A-Za-z_]\w*\})?(?P<operator><<<|<<-|<<|&>>|&>|>>|>\||<>|<&|>&|<|>)")
_FUNCTION = re.compile(r"(?P<name>[^\s;&|<>()'\"$`\\#=]+)[ \t]*\([ \t]*\)")
_KEYWORD = re.compile(
    r"(?:if|then|elif|else|fi|while|until|for|select|case|esac|do|done|function|coproc|time|in|\[\[|\{|\}|!)"
    r"(?=[\s;&|<>()]|$)"
)
_OPERATOR = re.compile(r"&&|\|\||;;&|;;|;&|\|&|[;&|\n]")
_CLOSING = ("then", "elif", "else", "fi", "do", "done", "esac", "}")
_DECLARING = ("export", "readonly", "declare", "typeset", "local")


def read(text: str, line: int = 1) -> Script:
    """The script; ``line`` is the number of its first line. Raises ReadError."""
    words = Words(text.replace("\r\n", "\n"), line, _commands_of)
    pipelines = Parser(words).commands(())
    if words.at < len(words.text):
        raise words.fail(f"unexpected `{words.character}`")
    return Script(pipelines, words.comments)


def _commands_of(text: str, line: int) -> list[Pipeline]:
    return read(text, line).pipelines


class Parser:
    """A recursive-descent reader of commands over a cursor of words."""

    def __init__(self, words: Words) -> None:
        self.words = words

    # Lists

    def commands(self, ends: tuple[str, ...]) -> list[Pipeline]:
        """Pipelines up to one of the closing words, which is not consumed, or up to the end."""
        pipelines: list[Pipeline] = []
        joined_by = ";"
        while True:
            self.blank_lines()
            if self.at_end(ends):
                if joined_by in ("&&", "||"):
                    raise self.words.fail(f"expected a command after `{joined_by}`")
                return pipelines
            pipelines.append(self.pipeline(joined_by))
            self.words.space()
            operator = _OPERATOR.match(self.words.text, self.words.at)
            if operator and operator[0] in (";;", ";&", ";;&"):
                return pipelines
            if not operator:
                if self.at_end(ends):
                    return pipelines
                raise self.words.fail(f"unexpected `{self.words.character}`")
            joined_by = operator[0] if operator[0] != "\n" else ";"
            if operator[0] == "\n":
                self.words.newline()
            else:
                self.words.at = operator.end()

    def at_end(self, ends: tuple[str, ...]) -> bool:
        if self.words.at >= len(self.words.text):
            return True
        if self.words.character == ")":
            return True
        if _OPERATOR.match(self.words.text, self.words.at) and self.words.ahead(";;"):
            return True
        return self.keyword() in ends

    def keyword(self) -> str:
        match = _KEYWORD.match(self.words.text, self.words.at)
        return match[0] if match else ""

    def blank_lines(self) -> None:
        while True:
            self.words.space()
            if self.words.character != "\n":
                return
            self.words.newline()

    def expect(self, keyword: str) -> None:
        self.blank_lines()
        if self.keyword() != keyword:
            found = self.words.text[self.words.at : self.words.at + 12].split("\n")[0] or "the end"
            raise self.words.fail(f"expected `{keyword}`, but found `{found}`")
        self.words.at += len(keyword)

    def pipeline(self, joined_by: str) -> Pipeline:
        negated = False
        while self.keyword() in ("!", "time"):
            negated ^= self.keyword() == "!"
            self.words.at += len(self.keyword())
            self.words.space()
            if self.words.ahead("-p"):
                self.words.at += 2
                self.words.space()
        commands = [self.command()]
        while True:
            self.words.space()
            if not self.words.ahead("|") or self.words.ahead("||"):
                return Pipeline(commands, joined_by, negated)
            self.words.at += 2 if self.words.ahead("|&") else 1
            self.blank_lines()
            commands.append(self.command())

    # Commands

    def command(self) -> Command:
        self.words.space()
        keyword = self.keyword()
        line = self.words.line()
        if self.words.ahead("((") and (found := self.arithmetic_command(line)):
            return found
        if self.words.character == "(":
            self.words.at += 1
            body = self.commands((")",))
            self.close(")")
            return self.redirected(Compound("(", line, bodies=[body]))
        if keyword in _COMPOUND:
            self.words.at += len(keyword)
            return self.redirected(_COMPOUND[keyword](self, line))
        if keyword in _CLOSING:
            raise self.words.fail(f"unexpected `{keyword}`")
        if keyword == "coproc":
            self.words.at += len(keyword)
            return self.command()
        match = _FUNCTION.match(self.words.text, self.words.at)
        if match:
            self.words.at = match.end()
            return self.function_body(match["name"], line)
        return self.simple(line)

    def close(self, mark: str) -> None:
        if not self.words.ahead(mark):
            raise self.words.fail(f"expected `{mark}`")
        self.words.at += len(mark)

    def arithmetic_command(self, line: int) -> Compound | None:
        start = self.words.at
        self.words.at += 2
        if self.words.arithmetic():
            text = self.words.text[start + 2 : self.words.at - 2]
            found = Compound("((", line, words=[Word(text, line, (Literal(text, True),))])
            return self.redirected(found)
        self.words.at = start
        return None

    def redirected(self, compound: Compound) -> Compound:
        while True:
            self.words.space()
            if not self.redirect(compound.redirects):
                return compound

    def braces(self, line: int) -> Compound:
        body = self.commands(("}",))
        self.expect("}")
        return Compound("{", line, bodies=[body])

    def condition(self, line: int) -> Compound:
        bodies = [self.commands(("then",))]
        self.expect("then")
        while True:
            bodies.append(self.commands(("elif", "else", "fi")))
            self.blank_lines()
            keyword = self.keyword()
            if keyword == "elif":
                self.expect("elif")
                bodies.append(self.commands(("then",)))
                self.expect("then")
            elif keyword == "else":
                self.expect("else")
            else:
                self.expect("fi")
                return Compound("if", line, bodies=bodies)

    def loop(self, line: int) -> Compound:
        test = self.commands(("do",))
        return Compound("while", line, bodies=[test, self.do_group()])

    def do_group(self) -> list[Pipeline]:
        self.expect("do")
        body = self.commands(("done",))
        self.expect("done")
        return body

    def for_loop(self, line: int) -> Compound:
        self.words.space()
        if self.words.ahead("(("):
            head = self.arithmetic_command(line)
            self.separator()
            return Compound("for", line, words=head.words if head else [], bodies=[self.body_of_for()])
        name = self.words.word()
        words: list[Word] = []
        self.blank_lines()
        if self.keyword() == "in":
            self.words.at += 2
            words = self.word_list()
        self.separator()
        return Compound("for", line, name.text if name else "", words, [self.body_of_for()])

    def body_of_for(self) -> list[Pipeline]:
        self.blank_lines()
        if self.keyword() != "{":
            return self.do_group()
        self.expect("{")
        body = self.commands(("}",))
        self.expect("}")
        return body

    def word_list(self) -> list[Word]:
        found: list[Word] = []
        while True:
            self.words.space()
            word = self.words.word()
            if word is None:
                return found
            found.append(word)

    def separator(self) -> None:
        self.words.space()
        if self.words.character == ";":
            self.words.at += 1
        self.blank_lines()

    def case(self, line: int) -> Compound:
        self.words.space()
        subject = self.words.word()
        self.expect("in")
        found = Compound("case", line, words=[subject] if subject else [])
        while True:
            self.blank_lines()
            if self.keyword() == "esac":
                self.expect("esac")
                return found
            self.case_pattern()
            found.bodies.append(self.commands(("esac",)))
            self.blank_lines()
            for mark in (";;&", ";;", ";&"):
                if self.words.ahead(mark):
                    self.words.at += len(mark)
                    break
            else:
                self.expect("esac")
                return found

    def case_pattern(self) -> None:
        if self.words.character == "(":
            self.words.at += 1
        while True:
            self.words.space()
            if self.words.word(stop=" \t\n;&|()") is None:
                raise self.words.fail("expected a pattern")
            self.words.space()
            if self.words.character == "|":
                self.words.at += 1
                continue
            self.close(")")
            return

    def test(self, line: int) -> Compound:
        """`[[ ... ]]`: its words, operators left out."""
        found = Compound("[[", line)
        while True:
            self.blank_lines()
            if self.words.ahead("]]"):
                self.words.at += 2
                return found
            if self.words.ahead("&&") or self.words.ahead("||"):
                self.words.at += 2
            elif self.words.character in ("<", ">", "(", ")") and self.words.character:
                self.words.at += 1
            else:
                matching = bool(found.words) and found.words[-1].text == "=~"
                word = self.pattern_word() if matching else self.words.word(stop=" \t\n;&|()<>")
                if word is None:
                    raise self.words.fail("expected `]]`")
                found.words.append(word)

    def pattern_word(self) -> Word | None:
        """The regular expression after `=~`: parentheses and bars are part of it."""
        start, line, depth = self.words.at, self.words.line(), 0
        text = self.words.text
        while self.words.at < len(text):
            character = text[self.words.at]
            if character in " \t\n" and depth <= 0:
                break
            if character in "'\"\\$`":
                self.words.part([], "")
                continue
            if character == "[":
                end = re.compile(r"\[\^?\]?(?:\[:\w+:\]|[^\]\s])*\]").match(text, self.words.at)
                if end:
                    self.words.at = end.end()
                    continue
            depth += (character == "(") - (character == ")")
            self.words.at += 1
        source = text[start : self.words.at]
        return Word(source, line, (Literal(source, True),)) if source else None

    def function(self, line: int) -> Compound:
        self.words.space()
        name = self.words.word(stop=BREAKS)
        self.words.space()
        if self.words.character == "(":
            self.words.at += 1
            self.words.space()
            self.close(")")
        return self.function_body(name.text if name else "", line)

    def function_body(self, name: str, line: int) -> Compound:
        self.blank_lines()
        body = self.command()
        return Compound("function", line, name, bodies=[[Pipeline([body])]])

    # Simple commands

    def simple(self, line: int) -> Simple:
        found = Simple(line)
        while True:
            self.words.space()
            if self.redirect(found.redirects):
                continue
            if (not found.words or _declares(found)) and self.assignment(found):
                continue
            word = self.words.word()
            if word is None:
                break
            found.words.append(word)
        if not (found.words or found.assignments or found.redirects):
            raise self.words.fail(f"unexpected `{self.words.character or 'end'}`")
        return found

    def assignment(self, found: Simple) -> bool:
        match = _ASSIGNMENT.match(self.words.text, self.words.at)
        if match is None:
            return False
        line, start = self.words.line(), self.words.at
        self.words.at = match.end()
        operator = match[2]
        if operator == "[":
            self.words.balanced("[", "]")
            operator = "+=" if self.words.ahead("+=") else "=" if self.words.ahead("=") else ""
            if not operator:
                self.words.at = start
                return False
            self.words.at += len(operator)
        items = None
        if self.words.character == "(":
            value_at = self.words.at
            items = self.array()
            text = self.words.text[value_at : self.words.at]
            value = Word(text, line, ())
        else:
            value = self.words.word() or Word("", line, ())
        found.assignments.append(Assignment(match[1], value, operator.startswith("+"), line, items))
        return True

    def array(self) -> tuple[Word, ...]:
        self.words.at += 1
        items: list[Word] = []
        while True:
            self.blank_lines()
            if self.words.character == ")":
                self.words.at += 1
                return tuple(items)
            word = self.words.word()
            if word is None:
                raise self.words.fail("expected `)`")
            items.append(word)

    def redirect(self, redirects: list[Redirect]) -> bool:
        match = _REDIRECT.match(self.words.text, self.words.at)
        if match is None or (match["operator"] in ("<", ">") and self.words.text.startswith("(", match.end())):
            return False
        self.words.at = match.end()
        self.words.space()
        operator = match["operator"]
        target = self.words.word()
        if target is None:
            raise self.words.fail(f"expected a target after `{operator}`")
        redirects.append(Redirect(operator, target, match["fd"] or ""))
        if operator in ("<<", "<<-"):
            delimiter = re.sub(r"['\"\\]", "", target.text)
            self.words.pending.append((len(redirects) - 1, delimiter, target.quoted, operator == "<<-", redirects))
        return True


def _declares(command: Simple) -> bool:
    """Whether the words so far are `export`, `local` or the like, behind which assignments may stand."""
    return command.words[0].text in _DECLARING


_COMPOUND = {
    "{": Parser.braces,
    "if": Parser.condition,
    "while": Parser.loop,
    "until": Parser.loop,
    "for": Parser.for_loop,
    "select": Parser.for_loop,
    "case": Parser.case,
    "[[": Parser.test,
    "function": Parser.function,
}

__all__ = ["Comment", "Parser", "ReadError", "read"]
