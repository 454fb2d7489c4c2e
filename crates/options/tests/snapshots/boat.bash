# bash completion for boat, written by `boat completion bash`

# The tables: sets what the command $1 ("boat run") has.
_boat_table() {
    commands= options= taking= letters= stops=
    case $1 in
    "boat")
        commands='run rm image version'
        options='--root --version -v --help -h'
        taking='--root'
        ;;
    "boat run")
        options='--interactive -i --tty -t --rm --env -e --name --hostname -h --memory -m --network --gpus -g --help'
        taking='--env -e --name --hostname -h --memory -m --network --net'
        letters='ehm'
        stops='1'
        ;;
    "boat rm" | "boat remove")
        options='--force -f --help -h'
        ;;
    "boat image" | "boat images")
        commands='ls tag'
        options='--help -h'
        ;;
    "boat version")
        options='--help -h'
        ;;
    "boat __secret")
        options='--help -h'
        ;;
    "boat image ls" | "boat image list" | "boat images ls" | "boat images list")
        options='--help -h'
        ;;
    "boat image tag" | "boat images tag")
        options='--help -h'
        ;;
    *) return 1 ;;
    esac
}

# What value the option $2 of the command $1 takes.
_boat_value() {
    case "$1 $2" in
    "boat --root") _boat_dirs ;;
    "boat run --env" | "boat run -e") _boat_live environment ;;
    "boat run --network" | "boat run --net") _boat_words 'none host container:' ;;
    esac
}

# What the positional number $2 of the command $1 is.
_boat_positional() {
    case "$1 $2" in
    "boat run"\ 1) _boat_live images ;;
    "boat run"\ 2) _boat_files ;;
    "boat rm"\ * | "boat remove"\ *) _boat_live containers ;;
    "boat image ls"\ 1 | "boat image list"\ 1 | "boat images ls"\ 1 | "boat images list"\ 1) _boat_live images ;;
    "boat image tag"\ 1 | "boat images tag"\ 1) _boat_live images ;;
    esac
}

_boat_words() {
    mapfile -t COMPREPLY < <(compgen -W "$*" -- "$cur")
    # After `container:` the word goes on.
    [[ ${COMPREPLY[0]} == *[=:] ]] && compopt -o nospace 2>/dev/null
}
_boat_files() { compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$cur"); }
_boat_dirs() { compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur"); }
_boat_live() {
    local name
    while IFS= read -r name; do
        [[ $name == "$cur"* ]] && COMPREPLY+=("$name")
    done < <("${words[@]:0:globals}" __complete "$1" 2>/dev/null)
}

# A container's name and a colon, or a path.
_boat_places() {
    [[ $cur == [./]* ]] || _boat_live places
    if [[ ${#COMPREPLY[@]} == 0 ]]; then
        _boat_files
    else
        compopt -o nospace 2>/dev/null
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur")
    fi
}

_boat() {
    local words=() word piece= line=$COMP_LINE i
    COMPREPLY=()
    # bash splits words at = and : too; what has no space between belongs together.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $piece && $word && $line == "$word"* ]]; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
        line=${line#*"$word"}
        piece=$word
    done
    [[ $piece == [=:] ]] && piece=

    # Where the cursor is: below which command, after which option, at which positional.
    local cur=${words[${#words[@]} - 1]} whole path=boat expecting= over= positional=1 globals=1 letter
    local commands options taking letters stops
    whole=$cur
    _boat_table "$path"
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        word=${words[i]}
        if [[ $expecting ]]; then
            expecting=
        elif [[ ! $over && $word == -- ]]; then
            over=1
        elif [[ ! $over && $word == --* ]]; then
            [[ $word != *=* && " $taking " == *" $word "* ]] && expecting=$word
        elif [[ ! $over && $word == -?* ]]; then
            for ((letter = 1; letter < ${#word}; letter++)); do
                if [[ $letters == *"${word:letter:1}"* ]]; then
                    ((letter == ${#word} - 1)) && expecting=-${word:letter:1}
                    break
                fi
            done
        elif [[ $commands && $positional == 1 ]] && _boat_table "$path $word"; then
            [[ $path == boat ]] && globals=$i
            path+=" $word" over=
        else
            _boat_table "$path" || return
            ((positional++))
            [[ $stops ]] && over=1
        fi
    done
    [[ $path == boat ]] && globals=$i

    if [[ $expecting ]]; then
        _boat_value "$path" "$expecting"
    elif [[ ! $over && $cur == --*=* ]]; then
        word=${cur%%=*} cur=${cur#*=}
        _boat_value "$path" "$word"
    elif [[ ! $over && $cur == -* ]]; then
        _boat_words "$options"
    elif [[ $commands && $positional == 1 ]]; then
        # A command may have both; the second one adds to the first.
        _boat_words "$commands"
        _boat_positional "$path" "$positional"
    else
        _boat_positional "$path" "$positional"
    fi

    # bash replaces only what follows the last = or :.
    word=${whole%"$piece"}
    [[ $whole != "$cur" ]] && word=${word#"${whole%"$cur"}"}
    COMPREPLY=("${COMPREPLY[@]#"$word"}")
}

complete -F _boat boat
