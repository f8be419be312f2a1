"""The completion scripts of the shells. Each asks the program what fits (`answering`).

Answers are never evaluated: a shell splits them at line ends and inserts them as words. The shells complete
paths themselves, as they know how to quote them.
"""

from typing import Final

SHELLS: Final = ("bash", "zsh", "fish")

_BASH: Final = r"""# Completion of PROGRAM for bash 4.4 and later.
_FUNCTION() {
    local answer=() line
    while IFS= read -r line; do
        answer+=("$line")
    done < <(PROGRAM __complete bash "$COMP_WORDBREAKS" "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    COMPREPLY=()
    case "${answer[0]-}" in
        files) compopt -o default ;;
        folders) compopt -o dirnames ;;
        words)
            for line in "${answer[@]:1}"; do
                COMPREPLY+=("${line%%$'\t'*}")
            done
            case "${COMPREPLY[0]-}" in
                *[=:/]) [ "${#COMPREPLY[@]}" = 1 ] && compopt -o nospace ;;
            esac
            ;;
    esac
    return 0
}
complete -o nosort -F _FUNCTION PROGRAM
"""

_ZSH: Final = r"""#compdef PROGRAM
# Completion of PROGRAM for zsh.
_FUNCTION() {
    local -a answer whole unfinished
    local line word
    answer=("${(@f)$(PROGRAM __complete zsh "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    case "${answer[1]-}" in
        files) compset -P '-*='; _files ;;
        folders) compset -P '-*='; _files -/ ;;
        words)
            for line in "${(@)answer[2,-1]}"; do
                word="${line%%$'\t'*}"
                if [[ "$word" == *[=:/] ]]; then
                    unfinished+=("${word//:/\\:}:${line#*$'\t'}")
                else
                    whole+=("${word//:/\\:}:${line#*$'\t'}")
                fi
            done
            (( ${#whole} )) && _describe -t words 'PROGRAM' whole
            (( ${#unfinished} )) && _describe -t words 'PROGRAM' unfinished -S ''
            ;;
    esac
    return 0
}
if [[ "${funcstack[1]-}" == "_PROGRAM" ]]; then
    _FUNCTION "$@"
else
    compdef _FUNCTION PROGRAM
fi
"""

_FISH: Final = r"""# Completion of PROGRAM for fish.
function _FUNCTION
    set -l words (commandline -opc)
    set -e words[1]
    set -l typed (commandline -ct)
    set -l answer (PROGRAM __complete fish $words "$typed" 2>/dev/null)
    set -l prefix (string match -r -- '^--[^=]*=' "$typed")
    set -l path (string replace -r -- '^--[^=]*=' '' "$typed")
    switch "$answer[1]"
        case files
            for line in (__fish_complete_path "$path")
                echo -- "$prefix$line"
            end
        case folders
            for line in (__fish_complete_directories "$path")
                echo -- "$prefix$line"
            end
        case words
            set -e answer[1]
            printf '%s\n' $answer
    end
end
complete --no-files --command PROGRAM --arguments '(_FUNCTION)'
"""

_SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def script(shell: str, program: str) -> str:
    """The completion script of a shell for the program under the name that it was called by."""
    function = "".join(sign if sign.isalnum() else "_" for sign in program)
    return _SCRIPTS[shell].replace("_FUNCTION", f"_{function}_completion").replace("PROGRAM", program)
