"""Completion in bash, zsh and fish: of file names, and of pipeline text inside a word."""

from __future__ import annotations

import os

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

from onnx_passes.cli.complete import UNFINISHED

_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' response type value files= folders=
    response=$(env COMP_LINE="$COMP_LINE" COMP_POINT="$COMP_POINT" COMP_WORD="${COMP_WORDS[COMP_CWORD]}" \\
        %(complete_var)s=bash_complete "$1" 2>/dev/null)
    COMPREPLY=()
    while IFS=',' read -r type value; do
        case $type in
            plain) COMPREPLY+=("$value") ;;
            part) COMPREPLY+=("$value"); compopt -o nospace ;;
            file) files=1 ;;
            dir) folders=1 ;;
        esac
    done <<< "$response"
    if [[ $folders ]]; then
        compopt -o dirnames
    elif [[ $files && ${#COMPREPLY[@]} -eq 0 ]]; then
        compopt -o bashdefault -o default
    elif [[ $files ]]; then
        compopt -o filenames
        COMPREPLY+=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
    fi
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""
_BREAKS = "\"'><=;|&(:"
_FILE = "file"


class _KeepsFileNames(ShellComplete):
    """Completion that falls back to file names."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Return completions, or a request for file names if there are none."""
        found = super().get_completions(args, incomplete)
        if found or incomplete.startswith("-"):
            return found
        return [CompletionItem(incomplete, type=_FILE)]


class Bash(_KeepsFileNames, BashComplete):
    """Bash splits words at ``=``, ``(`` and others: read the whole line, and split the answer as bash does."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the word at the cursor."""
        line = os.environ["COMP_LINE"].encode()[: int(os.environ["COMP_POINT"])].decode(errors="ignore")
        words = split_arg_string(line)[1:]
        is_between = len(split_arg_string(f"{line}x")) > len(words) + 1
        incomplete = "" if is_between or not words else words.pop()
        if incomplete.startswith("--") and "=" in incomplete:
            option, _, incomplete = incomplete.partition("=")
            words.append(option)
        self._known = len(incomplete) - len(_seen_by_bash(incomplete))
        return words, incomplete

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Add a second completion to a single unfinished one: bash would close the quotes."""
        found = super().get_completions(args, incomplete)
        if len(found) == 1 and found[0].type == UNFINISHED:
            found.append(CompletionItem(f"{found[0].value}…", type=UNFINISHED))
        return found

    def format_completion(self, item: CompletionItem) -> str:
        """Drop the part of a completion that bash treats as separate words."""
        return f"{item.type},{str(item.value)[self._known :] if item.type != _FILE else item.value}"


class Zsh(_KeepsFileNames, ZshComplete):
    """Completion of zsh, without the type of unfinished words."""

    def format_completion(self, item: CompletionItem) -> str:
        """Format a completion; zsh has no unfinished words."""
        return super().format_completion(_finished(item))


class Fish(_KeepsFileNames, FishComplete):
    """Completion of fish, which also allows commas in completions."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split -m 1 ","')

    def format_completion(self, item: CompletionItem) -> str:
        """Format a completion; fish has no unfinished words."""
        return super().format_completion(_finished(item))


def register() -> None:
    """Register these classes with click."""
    for name, shell in (("bash", Bash), ("zsh", Zsh), ("fish", Fish)):
        add_completion_class(shell, name)


def _finished(item: CompletionItem) -> CompletionItem:
    return CompletionItem(item.value, help=item.help) if item.type == UNFINISHED else item


def _seen_by_bash(word: str) -> str:
    """Return the end of a word that bash treats as the whole word."""
    seen = os.environ.get("COMP_WORD", "")
    if set(seen) <= set(_BREAKS):
        return ""
    seen = "".join(split_arg_string(seen))
    return seen if word.endswith(seen) else word
