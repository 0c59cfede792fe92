#include <iostream>
#include <string>

#include "commands.hpp"
#include "exit_code.hpp"
#include "terminal/style.hpp"

namespace cubepi::app {

namespace {

constexpr const char* bash_script =
    R"script(# cubepi completion for bash. Put this into ~/.bashrc:  source <(cubepi completion bash)
_cubepi() {
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" command="${COMP_WORDS[1]}"
    local talk="-m --model --base-url --provider --offline --script -s --session -c --continue -y --yes
        --no-tools --system --max-turns -h --help"
    local providers="openai openai-responses anthropic openrouter ollama llama.cpp vllm lmstudio"
    COMPREPLY=()
    case "$before" in
        --script) COMPREPLY=($(compgen -f -- "$word")); return ;;
        --dir) COMPREPLY=($(compgen -d -- "$word")); return ;;
        -k|--kind)
            COMPREPLY=($(compgen -W "message tool_call tool_result anchor event" -- "$word")); return ;;
        --provider) COMPREPLY=($(compgen -W "$providers" -- "$word")); return ;;
        -s|--session)
            local IFS=$'\n'
            COMPREPLY=($(compgen -W "$(cubepi sessions list 2>/dev/null | cut -f1)" -- "$word")); return ;;
    esac
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "run chat demo onboard models doctor hooks sessions tape completion --version --help" -- "$word"))
        return
    fi
    case "$command" in
        run) COMPREPLY=($(compgen -W "$talk --json" -- "$word")) ;;
        chat) COMPREPLY=($(compgen -W "$talk" -- "$word")) ;;
        models) COMPREPLY=($(compgen -W "--provider --base-url --json -h --help" -- "$word")) ;;
        onboard) COMPREPLY=($(compgen -W "--provider --base-url -m --model --key-stdin -y --yes -h --help" -- "$word")) ;;
        demo) COMPREPLY=($(compgen -W "--fast -h --help" -- "$word")) ;;
        tape)
            if [ "$COMP_CWORD" -eq 2 ]; then
                COMPREPLY=($(compgen -W "list show search anchors export --dir -h --help" -- "$word"))
                return
            fi
            local which="-t --tape -s --session -h --help" filter="-k --kind --from --to" limit="-n --limit"
            case "${COMP_WORDS[2]}" in
                list) COMPREPLY=($(compgen -W "$limit -h --help" -- "$word")) ;;
                show|search) COMPREPLY=($(compgen -W "$which $filter $limit --json" -- "$word")) ;;
                anchors) COMPREPLY=($(compgen -W "$which $limit --json" -- "$word")) ;;
                export) COMPREPLY=($(compgen -f -- "$word"; compgen -W "$which $filter --messages" -- "$word")) ;;
            esac ;;
        doctor|hooks) COMPREPLY=($(compgen -W "-h --help" -- "$word")) ;;
        completion) COMPREPLY=($(compgen -W "bash zsh fish" -- "$word")) ;;
        sessions)
            if [ "$before" = delete ]; then
                local IFS=$'\n'
                COMPREPLY=($(compgen -W "$(cubepi sessions list 2>/dev/null | cut -f1)" -- "$word"))
            else
                COMPREPLY=($(compgen -W "list delete --all" -- "$word"))
            fi ;;
    esac
}
complete -F _cubepi cubepi
)script";

constexpr const char* zsh_script =
    R"script(#compdef cubepi
# cubepi completion for zsh. Put this into ~/.zshrc, behind compinit:  source <(cubepi completion zsh)
_cubepi_sessions() {
    local -a names
    names=(${(f)"$(cubepi sessions list 2>/dev/null | cut -f1)"})
    compadd -a names
}
_cubepi() {
    local -a talk endpoint
    endpoint=(
        '--base-url[server of the provider]:url:'
        '--provider[provider]:provider:(openai openai-responses anthropic openrouter ollama llama.cpp vllm lmstudio)'
    )
    talk=(
        '(-m --model)'{-m,--model}'[model id]:model:'
        $endpoint
        '--offline[use the scripted model]'
        '--script[answers of the offline model]:file:_files'
        '(-s --session)'{-s,--session}'[keep the conversation under this name]:session:_cubepi_sessions'
        '(-c --continue)'{-c,--continue}"[go on with this folder's last session]"
        '(-y --yes)'{-y,--yes}'[let tools act without asking]'
        '--no-tools[give the model no tools]'
        '--system[replace the system prompt]:text:'
        '--max-turns[model calls of one prompt at most]:number:'
        '(-h --help)'{-h,--help}'[help]'
    )
    if (( CURRENT == 2 )); then
        compadd -- run chat demo onboard models doctor hooks sessions tape completion --version --help
        return
    fi
    local command=$words[2]
    shift words; (( CURRENT-- ))
    case $command in
        run) _arguments $talk '--json[print the events]' '*:prompt:' ;;
        chat) _arguments $talk ;;
        models) _arguments $endpoint '--json[print a JSON array]' '*:words:' ;;
        onboard)
            _arguments $endpoint '(-m --model)'{-m,--model}'[model id]:model:' \
                '--key-stdin[read the key from standard input]' '(-y --yes)'{-y,--yes}'[ask nothing]' ;;
        demo) _arguments '--fast[without the pauses]' ;;
        completion) compadd bash zsh fish ;;
        tape)
            if (( CURRENT == 2 )); then
                compadd -- list show search anchors export --dir
                return
            fi
            local -a which filter limit lines
            which=(
                '(-t --tape)'{-t,--tape}"[the tape's name]:tape:"
                '(-s --session)'{-s,--session}'[the tape of this session]:session:_cubepi_sessions'
            )
            filter=(
                '*'{-k,--kind}'[only entries of this kind]:kind:(message tool_call tool_result anchor event)'
                '--from[not before this date]:date:'
                '--to[not after this date]:date:'
            )
            limit=('(-n --limit)'{-n,--limit}'[how many at most]:number:')
            lines=('--json[entries as they are on the tape]')
            local what=$words[2]
            shift words; (( CURRENT-- ))
            case $what in
                list) _arguments $limit ;;
                show) _arguments $which $filter $limit $lines ;;
                search) _arguments $which $filter $limit $lines '*:text:' ;;
                anchors) _arguments $which $limit $lines ;;
                export) _arguments $which $filter '--messages[what a model would get]' '*:file:_files' ;;
            esac ;;
        sessions) if [[ $words[CURRENT-1] == delete ]]; then _cubepi_sessions; else compadd -- list delete --all; fi ;;
    esac
}
compdef _cubepi cubepi
)script";

constexpr const char* fish_script =
    R"script(# cubepi completion for fish. Keep it:  cubepi completion fish > ~/.config/fish/completions/cubepi.fish
function __cubepi_sessions
    cubepi sessions list 2>/dev/null | cut -f1
end
complete -c cubepi -f
complete -c cubepi -n __fish_use_subcommand -a run -d 'Answer one prompt and exit'
complete -c cubepi -n __fish_use_subcommand -a chat -d 'Talk with an agent that has the tools of this folder'
complete -c cubepi -n __fish_use_subcommand -a demo -d 'A guided tour, offline'
complete -c cubepi -n __fish_use_subcommand -a onboard -d 'Choose provider, key and model, and keep the choice'
complete -c cubepi -n __fish_use_subcommand -a models -d 'List the models that an endpoint offers'
complete -c cubepi -n __fish_use_subcommand -a doctor -d 'What is configured and reachable'
complete -c cubepi -n __fish_use_subcommand -a hooks -d 'What each plugin implements'
complete -c cubepi -n __fish_use_subcommand -a sessions -d 'List or delete kept conversations'
complete -c cubepi -n __fish_use_subcommand -a completion -d 'Print a completion script'
complete -c cubepi -n __fish_use_subcommand -l version -d 'Print the version'
set -l talk '__fish_seen_subcommand_from run chat'
complete -c cubepi -n "$talk onboard" -s m -l model -x -d 'Model id'
set -l providers 'openai openai-responses anthropic openrouter ollama llama.cpp vllm lmstudio'
complete -c cubepi -n "$talk models onboard" -l base-url -x -d 'Server of the provider'
complete -c cubepi -n "$talk models onboard" -l provider -x -a $providers -d 'Provider'
complete -c cubepi -n $talk -l offline -d 'Use the scripted model'
complete -c cubepi -n $talk -l script -r -F -d 'Answers of the offline model'
complete -c cubepi -n $talk -s s -l session -x -a '(__cubepi_sessions)' -d 'Keep the conversation under this name'
complete -c cubepi -n $talk -s c -l continue -d 'Go on with the last session of this folder'
complete -c cubepi -n $talk -s y -l yes -d 'Let tools act without asking'
complete -c cubepi -n $talk -l no-tools -d 'Give the model no tools'
complete -c cubepi -n $talk -l system -x -d 'Replace the system prompt'
complete -c cubepi -n $talk -l max-turns -x -d 'Model calls of one prompt at most'
complete -c cubepi -n '__fish_seen_subcommand_from onboard' -s y -l yes -d 'Ask nothing'
complete -c cubepi -n '__fish_seen_subcommand_from onboard' -l key-stdin -d 'Read the key from standard input'
complete -c cubepi -n '__fish_seen_subcommand_from run' -l json -d 'Print the events'
complete -c cubepi -n '__fish_seen_subcommand_from models' -l json -d 'Print a JSON array'
complete -c cubepi -n '__fish_seen_subcommand_from demo' -l fast -d 'Without the pauses'
complete -c cubepi -n __fish_use_subcommand -a tape -d 'Look at what sessions have recorded'
set -l entries '__fish_seen_subcommand_from tape; and __fish_seen_subcommand_from show search anchors export'
set -l filtered '__fish_seen_subcommand_from tape; and __fish_seen_subcommand_from show search export'
set -l listed '__fish_seen_subcommand_from tape; and __fish_seen_subcommand_from show search anchors'
set -l limited '__fish_seen_subcommand_from tape; and __fish_seen_subcommand_from list show search anchors'
complete -c cubepi -n '__fish_seen_subcommand_from tape; and not __fish_seen_subcommand_from list show search anchors export' -a 'list show search anchors export'
complete -c cubepi -n '__fish_seen_subcommand_from tape' -l dir -x -a '(__fish_complete_directories)' -d 'Where the tapes are'
complete -c cubepi -n $entries -s t -l tape -x -d 'The name of the tape'
complete -c cubepi -n $entries -s s -l session -x -a '(__cubepi_sessions)' -d 'The tape of this session'
complete -c cubepi -n $filtered -s k -l kind -x -a 'message tool_call tool_result anchor event' -d 'Only entries of this kind'
complete -c cubepi -n $filtered -l from -x -d 'Not before this date'
complete -c cubepi -n $filtered -l to -x -d 'Not after this date'
complete -c cubepi -n $limited -s n -l limit -x -d 'How many at most'
complete -c cubepi -n $listed -l json -d 'Entries as they are on the tape'
complete -c cubepi -n '__fish_seen_subcommand_from tape; and __fish_seen_subcommand_from export' -l messages -d 'What a model would get'
complete -c cubepi -n '__fish_seen_subcommand_from tape; and __fish_seen_subcommand_from export' -F
complete -c cubepi -n '__fish_seen_subcommand_from sessions' -a 'list delete'
complete -c cubepi -n '__fish_seen_subcommand_from sessions' -l all -d 'Those of all folders'
complete -c cubepi -n '__fish_seen_subcommand_from delete' -a '(__cubepi_sessions)'
complete -c cubepi -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'
)script";

}  // namespace

int completion_command(const CommandLine& line) {
    const std::string shell = line.words.empty() ? std::string() : line.words.front();
    if (shell == "bash") {
        std::cout << bash_script;
    } else if (shell == "zsh") {
        std::cout << zsh_script;
    } else if (shell == "fish") {
        std::cout << fish_script;
    } else {
        std::cerr << "cubepi: no completion for '" << printable(shell)
                  << "'.\n  There is one for bash, zsh and fish: cubepi completion bash\n";
        return exit_usage;
    }
    return exit_ok;
}

}  // namespace cubepi::app
