#compdef boat
# zsh completion for boat, written by `boat completion zsh`

# _arguments puts its options for compadd before the kind of names.
_boat_live() {
    local -a names
    names=(${(f)"$(_call_program $argv[-1] boat __complete $argv[-1] 2>/dev/null)"})
    compadd "${(@)argv[1,-2]}" -a names
}

# A container's name and a colon, or a path.
_boat_places() {
    [[ $PREFIX == [./]* ]] || _boat_live "$@" -S '' places
    _files "$@"
}

_boat_image_tag() {
    _arguments -C -s -S \
        '(- *)--help[Print this help]' \
        '(- *)-h[Print this help]' \
        ':source:_boat_live images' \
        ':target:'
}

_boat_image_ls() {
    _arguments -C -s -S \
        '(- *)--help[Print this help]' \
        '(- *)-h[Print this help]' \
        '::image:_boat_live images'
}

_boat___secret() {
    _arguments -C -s -S \
        '(- *)--help[Print this help]' \
        '(- *)-h[Print this help]'
}

_boat_version() {
    _arguments -C -s -S \
        '(- *)--help[Print this help]' \
        '(- *)-h[Print this help]'
}

_boat_image() {
    local curcontext=$curcontext state line
    typeset -A opt_args
    _arguments -C -s -S -A '-*' \
        '(- *)--help[Print this help]' \
        '(- *)-h[Print this help]' \
        '1: :->command' \
        '*:: :->rest'
    case $state in
    command)
        local -a commands=(
            'ls:List images'
            'tag:Give an image another name'
        )
        _describe command commands
        ;;
    rest)
        case $words[1] in
        ls|list) _boat_image_ls ;;
        tag) _boat_image_tag ;;
        esac
        ;;
    esac
}

_boat_rm() {
    _arguments -C -s -S \
        '(--force -f)--force[Even where it is afloat]' \
        '(--force -f)-f[Even where it is afloat]' \
        '(- *)--help[Print this help]' \
        '(- *)-h[Print this help]' \
        '*:boat:_boat_live containers'
}

_boat_run() {
    _arguments -C -s -S -A '-*' \
        '(--interactive -i)--interactive[Keep standard input open]' \
        '(--interactive -i)-i[Keep standard input open]' \
        '(--tty -t)--tty[Allocate a terminal]' \
        '(--tty -t)-t[Allocate a terminal]' \
        '--rm[Remove it when it ends]' \
        '*--env=[Set an environment variable\: it'\''s easy]:KEY\[=VALUE\]:_boat_live environment' \
        '*-e+[Set an environment variable\: it'\''s easy]:KEY\[=VALUE\]:_boat_live environment' \
        '--name=[Give it this name]:NAME:' \
        '(--hostname -h)--hostname=[Set the host name]:NAME:' \
        '(--hostname -h)-h+[Set the host name]:NAME:' \
        '(--memory -m)--memory=[Limit memory]:SIZE:' \
        '(--memory -m)-m+[Limit memory]:SIZE:' \
        '(--network --net)--network=[Connect to this network]:NETWORK:(none host container\:)' \
        '!(--network --net)--net=[Connect to this network]:NETWORK:(none host container\:)' \
        '(--gpus -g)--gpus=-[Give it graphics processors]::WHICH:' \
        '(--gpus -g)-g=-[Give it graphics processors]::WHICH:' \
        '(- *)--help[Print this help]' \
        ':image:_boat_live images' \
        '::command:_files' \
        '*::arg:'
}

_boat() {
    local curcontext=$curcontext state line
    typeset -A opt_args
    _arguments -C -s -S -A '-*' \
        '--root=[Keep everything below this directory]:DIR:_files -/' \
        '(- *)--version[Print the version]' \
        '(- *)-v[Print the version]' \
        '(- *)--help[Print this help]' \
        '(- *)-h[Print this help]' \
        '1: :->command' \
        '*:: :->rest'
    case $state in
    command)
        local -a commands=(
            'run:Run a boat'
            'rm:Remove boats'
            'image:Deal with images'
            'version:Print the version'
        )
        _describe command commands
        ;;
    rest)
        case $words[1] in
        run) _boat_run ;;
        rm|remove) _boat_rm ;;
        image|images) _boat_image ;;
        version) _boat_version ;;
        __secret) _boat___secret ;;
        esac
        ;;
    esac
}

# Sourced, the script registers itself; autoloaded from fpath, this file is the function.
if [[ $funcstack[1] == _boat ]]; then
    _boat "$@"
else
    compdef _boat boat
fi
