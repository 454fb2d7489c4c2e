# fish completion for boat, written by `boat completion fish`

# Whether the option $argv[2] of the command $argv[1] takes the next word.
function __boat_takes
    switch "$argv[1] $argv[2]"
        case 'boat --root'
            return 0
        case 'boat run --env' 'boat run -e' 'boat run --name' 'boat run --hostname' 'boat run -h' 'boat run --memory' 'boat run -m' 'boat run --network' 'boat run --net'
            return 0
    end
    return 1
end

# Prints the command that the cursor is below, then how many positionals stand before it.
function __boat_place
    set -l words (commandline -opc)
    set -l at boat
    set -l positionals 0
    set -l expecting 0
    set -l over 0
    for word in $words[2..-1]
        if test $expecting = 1
            set expecting 0
        else if test $over = 0; and test "$word" = --
            set over 1
        else if test $over = 0; and string match -q -- '--*' $word
            __boat_takes $at $word; and set expecting 1
        else if test $over = 0; and string match -qr -- '^-.' $word
            # Only the last letter of a cluster can want the next word.
            set -l letters (string split '' -- (string sub -s 2 -- $word))
            set -l taken 0
            for letter in $letters[1..-2]
                __boat_takes $at -$letter; and set taken 1
            end
            test $taken = 0; and __boat_takes $at -$letters[-1]; and set expecting 1
        else
            switch "$at $word"
            case 'boat run'
                set at 'boat run'
            case 'boat rm' 'boat remove'
                set at 'boat rm'
            case 'boat image' 'boat images'
                set at 'boat image'
            case 'boat version'
                set at 'boat version'
            case 'boat __secret'
                set at 'boat __secret'
            case 'boat image ls' 'boat image list'
                set at 'boat image ls'
            case 'boat image tag'
                set at 'boat image tag'
            case '*'
                set positionals (math $positionals + 1)
            end
        end
    end
    echo $at
    echo $positionals
end

# Whether the cursor is below the command $argv[1], at the positional $argv[2] or later where that ends in +.
function __boat_at
    set -l place (__boat_place)
    test "$place[1]" = "$argv[1]"; or return 1
    switch "$argv[2]"
        case ''
            return 0
        case '*+'
            test $place[2] -ge (string trim -c + -- $argv[2])
        case '*'
            test $place[2] = "$argv[2]"
    end
end

function __boat_live
    set -l words (commandline -opc)
    $words[1] __complete $argv[1] 2>/dev/null
end

complete -c boat -f
complete -c boat -n '__boat_at \'boat\'' -a run -d 'Run a boat'
complete -c boat -n '__boat_at \'boat\'' -a rm -d 'Remove boats'
complete -c boat -n '__boat_at \'boat\'' -a image -d 'Deal with images'
complete -c boat -n '__boat_at \'boat\'' -a version -d 'Print the version'
complete -c boat -n '__boat_at \'boat\'' -l root -d 'Keep everything below this directory' -r -f -a '(__fish_complete_directories)'
complete -c boat -n '__boat_at \'boat\'' -s v -l version -d 'Print the version'
complete -c boat -n '__boat_at \'boat\'' -s h -l help -d 'Print this help'
complete -c boat -n '__boat_at \'boat run\' 0' -s i -l interactive -d 'Keep standard input open'
complete -c boat -n '__boat_at \'boat run\' 0' -s t -l tty -d 'Allocate a terminal'
complete -c boat -n '__boat_at \'boat run\' 0' -l rm -d 'Remove it when it ends'
complete -c boat -n '__boat_at \'boat run\' 0' -s e -l env -d 'Set an environment variable: it\'s easy' -r -f -a '(__boat_live environment)'
complete -c boat -n '__boat_at \'boat run\' 0' -l name -d 'Give it this name' -x
complete -c boat -n '__boat_at \'boat run\' 0' -s h -l hostname -d 'Set the host name' -x
complete -c boat -n '__boat_at \'boat run\' 0' -s m -l memory -d 'Limit memory' -x
complete -c boat -n '__boat_at \'boat run\' 0' -l network -d 'Connect to this network' -r -f -a 'none host container:'
complete -c boat -n '__boat_at \'boat run\' 0' -s g -l gpus -d 'Give it graphics processors'
complete -c boat -n '__boat_at \'boat run\' 0' -l help -d 'Print this help'
complete -c boat -n '__boat_at \'boat run\' 0' -f -a '(__boat_live images)'
complete -c boat -n '__boat_at \'boat run\' 1' -F
complete -c boat -n '__boat_at \'boat rm\'' -s f -l force -d 'Even where it is afloat'
complete -c boat -n '__boat_at \'boat rm\'' -s h -l help -d 'Print this help'
complete -c boat -n '__boat_at \'boat rm\' 0+' -f -a '(__boat_live containers)'
complete -c boat -n '__boat_at \'boat image\'' -a ls -d 'List images'
complete -c boat -n '__boat_at \'boat image\'' -a tag -d 'Give an image another name'
complete -c boat -n '__boat_at \'boat image\'' -s h -l help -d 'Print this help'
complete -c boat -n '__boat_at \'boat version\'' -s h -l help -d 'Print this help'
complete -c boat -n '__boat_at \'boat __secret\'' -s h -l help -d 'Print this help'
complete -c boat -n '__boat_at \'boat image ls\'' -s h -l help -d 'Print this help'
complete -c boat -n '__boat_at \'boat image ls\' 0' -f -a '(__boat_live images)'
complete -c boat -n '__boat_at \'boat image tag\'' -s h -l help -d 'Print this help'
complete -c boat -n '__boat_at \'boat image tag\' 0' -f -a '(__boat_live images)'
