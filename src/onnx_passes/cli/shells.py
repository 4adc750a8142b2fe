"""Completion in bash, zsh and fish: file names stay, and pipeline text is completed inside of a word."""

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
    """Offers file names where nothing else fits."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Complete what there is to complete, or a file name."""
        found = super().get_completions(args, incomplete)
        if found or incomplete.startswith("-"):
            return found
        return [CompletionItem(incomplete, type=_FILE)]


class Bash(_KeepsFileNames, BashComplete):
    """Bash cuts words at ``=``, ``(`` and others: the line is read whole, and the answer cut where bash cuts."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the one that it is in."""
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
        """Offer a second choice beside a single one that wants more behind it: bash would close the quotes."""
        found = super().get_completions(args, incomplete)
        if len(found) == 1 and found[0].type == UNFINISHED:
            found.append(CompletionItem(f"{found[0].value}…", type=UNFINISHED))
        return found

    def format_completion(self, item: CompletionItem) -> str:
        """Leave out what bash takes for words of their own."""
        return f"{item.type},{str(item.value)[self._known :] if item.type != _FILE else item.value}"


class Zsh(_KeepsFileNames, ZshComplete):
    """Zsh as click has it."""

    def format_completion(self, item: CompletionItem) -> str:
        """Know no unfinished words."""
        return super().format_completion(_finished(item))


class Fish(_KeepsFileNames, FishComplete):
    """Fish as click has it, but for commas in what is completed."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split -m 1 ","')

    def format_completion(self, item: CompletionItem) -> str:
        """Know no unfinished words."""
        return super().format_completion(_finished(item))


def register() -> None:
    """Let click use these."""
    for name, shell in (("bash", Bash), ("zsh", Zsh), ("fish", Fish)):
        add_completion_class(shell, name)


def _finished(item: CompletionItem) -> CompletionItem:
    return CompletionItem(item.value, help=item.help) if item.type == UNFINISHED else item


def _seen_by_bash(word: str) -> str:
    """Return the end of a word that bash takes for the whole."""
    seen = os.environ.get("COMP_WORD", "")
    if set(seen) <= set(_BREAKS):
        return ""
    seen = "".join(split_arg_string(seen))
    return seen if word.endswith(seen) else word
