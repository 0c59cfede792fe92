#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "channels/channel_kinds.hpp"
#include "command_tree.hpp"
#include "failure.hpp"
#include "process.hpp"
#include "program.hpp"

namespace cubepi::app {

namespace {

// cubepi.1, generated from the tree of commands at build time. The other parts are written here.

constexpr const char* head = R"(.SH NAME
cubepi \- an agent at your terminal
.SH SYNOPSIS
.B cubepi
.RI [ OPTIONS ]
.RI [ PROMPT ]
.br
.B cubepi
.I COMMAND
.RI [ OPTIONS ]
.RI [ ARGUMENTS ]
.SH DESCRIPTION
.B cubepi
connects a language model with tools for the files of the current directory.
.PP
Without a command it starts a chat, as
.B cubepi chat
does; a prompt is its first message. If standard input or standard output is not a terminal, it answers the
prompt and exits, as
.B cubepi run
does. The prompt is one argument with blanks in it. A single word that is not a command is an error; use
.BI "cubepi run " WORD
or
.BI "cubepi chat " WORD
for such a prompt.
.PP
A chat is saved. Its name is made from the first words of its first prompt and is unique in the directory. On exit the
program prints the command that resumes it.
)";

constexpr const char* middle = R"(.SH STANDARD INPUT
.B cubepi run
adds standard input to the prompt if it is a pipe or a file. Binary data is refused; name the path of an image in the
prompt instead, and the model opens it with its
.B read
tool. The limit is 64 MiB;
.B \-\-max\-input
changes it.
.SH TIMES
Times are printed in the local time zone with its offset from UTC.
.B \-\-from
and
.B \-\-to
take a date
.RB ( 2026\-03\-01 )
or a time
.RB ( 2026\-03\-01T14:30 )
of the local time zone, or a time with its own offset
.RB ( 2026\-03\-01T14:30Z ", " 2026\-03\-01T14:30+01:00 ).
A date given to
.B \-\-to
includes that day.
.SH CONFIGURATION
.I ~/.config/cubepi/config.yaml
is a YAML file; all keys are optional.
.TP
.B provider, model, base_url
The provider to use if no option names one, its model and its address.
.TP
.B api_key, api_key_env
The key, or the name of the environment variable that holds it.
.TP
.B thinking_tag
The tag around thinking in the text of answers, for example "think".
.TP
.B providers
Endpoints by name. Each has
.BR type ,
.BR base_url ,
.BR api_key " or " api_key_env ,
and
.BR model .
.TP
.B fallback_models
Models to ask in turn if the first one does not answer.
.TP
.B model_timeout, max_turns, max_tokens
Limits: seconds of one model call, model calls per prompt, tokens of one answer.
.TP
.B max_repeated_calls
Calls of a tool with the same arguments and result that end a prompt; 10. The model is told at half of them. false: any number.
.TP
.B max_listed_mcp_tools
Tools of MCP servers in each request; 40. If there are more, the model finds and loads them when it needs them. false: any number.
.TP
.B mcp_start_wait
Seconds that the first prompt waits for MCP servers; 3. The tools of others follow when they answer.
.TP
.B notifications, theme, window_title
Of a chat: off, bell or osc9 when an answer or a question waits and the window is not in front (bell); auto, dark or light; false does not
name the session in the title of the window.
.TP
.B editing_mode
vi edits the prompt of a chat with the keys of vi; emacs by default.
.TP
.B keys
Keys of a chat with what they do: {f5: /status, ctrl-e: editor, ctrl-o: none}; /help lists the actions.
.TP
.B memory
true adds the tool memory, with which a model keeps notes for later conversations: below ~/.bub/memory, for each workspace, and in a
gateway for each session. false by default.
.TP
.B compact_at, compact_model
The share of the context window at which older messages are summarized for the model, 0.8; the model that writes the summary, or
"provider": a provider that can compacts the conversation itself.
.TP
.B hooks
Your own commands that run around calls of tools and prompts, by event (PreToolUse, PostToolUse, UserPromptSubmit, Stop, Notification) a list
of {matcher, hooks: [{command, timeout}]}. Each reads JSON from standard input; exit status 2 blocks.
.TP
.B mcp
MCP servers by name, whose tools the chat and run may use after approval: {command, args, env, cwd} of a program, or {url, headers, oauth};
disabled: true leaves one out. sampling: ask lets it have the model answer prompts that you allow each time; roots: false does not tell it the
directories of the conversation. ${NAME} in values of env, headers and oauth is a variable of the environment. oauth is for servers whose
login does not register clients: {client_id, client_secret, private_key, issuer, scope, grant, client_metadata, redirect_uri}. See mcp.
.TP
.B first_byte_timeout, idle_timeout
Seconds until an answer begins, and between its parts; 120, or 1800 for a server on this machine.
.TP
.B todos
Whether the model may write to-do lists, which are shown to the user; true.
.TP
.B subagents
Limits of the agents that a model starts: max_background, those in the background at once in one session, 4 by default and false for
none; max_turns, the model calls of one; max_spend, the USD of all that follow from one prompt.
.TP
.B escape_timeout
Seconds after which an Esc of the terminal is the key, and not the beginning of another one; 0.1.
.TP
.B allow
Rules for tools that may act without asking, e.g. "shell: cd /src/app && make test".
.TP
.BR ask ", " deny
Rules for calls that are asked about whatever is allowed, and for calls that are refused, e.g. "shell: git push *".
.TP
.B trust
Directories whose instructions, skills, .cubepi/config.yaml, .cubepi/prompts and .mcp.json are loaded without a question, with all below
them. Others are loaded after a chat or
.B cubepi trust add
has trusted them.
.TP
.B sandbox
The sandbox of commands: a mode, or a mapping of
.BR mode " (" workspace ", " read\-only " or " off ),
.BR network " and " unix_sockets " (true or false), lists of paths"
.BR writable " and " readable ,
and
.BR required ,
with which the program does not start where the kernel cannot hold the sandbox.
.TP
.B environment
The environment variables that commands get:
.BR inherit " (" all ", " core " or " none ),
and lists of names with * and ?,
.BR exclude " and " include .
.TP
.B trace
A directory for trace files of all turns, or a mapping of
.BR directory " and " content ,
which also records prompts, answers and results.
.TP
.B gateway
Settings of
.BR "cubepi gateway" :
.BR channels ,
)";

constexpr const char* tail = R"(.BR status " (an address for health and metrics),"
.BR admin " (" listen ", " viewer_token_env ", " operator_token_env "),"
.BR console " (true, or a mapping with " listen ),
.BR listen " (the address of parts without one), " base_path ", " allowed_hosts ", " trusted_proxies ,
.BR rules " (" channel ", " chat ", " user ", " allow ", " refuse "),"
.BR files " (" max_file_mb ", " max_files ", " max_total_mb "),"
.BR schedule " (" name ", " channel ", " chat ", " session ", " user ", " text ", " at ", " every ", " cron ", " zone ", " missed "), " time_zone ,
.BR limits " (" per_user ", " per_chat ", " total ": each with " messages ", " tokens ", " money "; " exempt_operators "),"
.BR approvers ", " root ", " shared_workspace ", " tape_namespace ", " notify_database ", " drain_timeout ", " retry_limit ", " question_timeout ", " max_waiting ", " threads ", " stream " and " show_error_details .
The page
.I guides/bub/gateway.md
describes them.
.TP
.B database
A PostgreSQL database (postgres://...) in which sessions are stored instead of in files.
.TP
.B databases
In place of
.BR database :
several databases among which sessions are divided, each with
.BR name ", " url ", " sessions " (ranges of positions, such as 0000-7fff) and " notify_database .
The page
.I guides/bub/several-gateways.md
describes them.
.TP
.B plugins
Settings of plugins, by name.
.SH OFFLINE SCRIPT
.B \-\-script
takes a JSON file: a list of answers, one for each model call. An answer is a text, an error, or a message with tool
calls. Each process begins with the first one, also if it continues a session.
.PP
.nf
["Just a text.",
 {"error": "the server is on fire"},
 {"stop_reason": "tool_use",
  "content": [{"type": "text", "text": "Looking."},
              {"type": "tool_call", "id": "c1", "name": "list", "arguments": {"path": "."}}]}]
.fi
.SH EVENTS
.B cubepi run \-\-json
prints one JSON object per line. Their schema is
.I schema/agent\-event.schema.json
in the documentation directory.
.SH EXIT STATUS
.TP
.B 0
Success.
.TP
.B 1
The model, the network or something else failed, or the output could not be written.
.TP
.B 2
Invalid options, arguments or input, or a file, session or question that does not exist.
.TP
.B 3
No model is configured or available.
.TP
.B 4
A session could not be read or written, or is in use.
.TP
.B 5
A limit of the run was reached.
.TP
.B 6
The answer is incomplete or empty.
.TP
.B 7
The run is suspended and waits for an answer; see
.BR "cubepi inbox" .
.TP
.B 129, 130, 143
Ended by SIGHUP, Ctrl\-C or SIGTERM.
.TP
.B 141
The output pipe was closed.
.SH ENVIRONMENT
.TP
.B OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY, OPENROUTER_API_KEY
Keys of the providers.
.TP
.B OPENAI_BASE_URL, ANTHROPIC_BASE_URL, GEMINI_BASE_URL
Other addresses for them.
.TP
.B BUB_HOME
Directory of the sessions instead of
.IR ~/.bub .
.TP
.B CUBEPI_LOCAL_SERVERS
.B off
disables the search for servers on this machine.
.TP
.B NO_COLOR
Disables colors if set.
.TP
.B TZ
The local time zone.
.SH FILES
.TP
.I ~/.config/cubepi/config.yaml
The configuration.
.TP
.I ~/.bub/tapes
The sessions.
.TP
.I ~/.local/state/cubepi/history
The input history of the chat.
.TP
.I ~/.local/state/cubepi/trust
The trusted directories.
.TP
.IR .cubepi/config.yaml ", " .cubepi/prompts ", " .mcp.json
Rules and hooks, prompts, and MCP servers of a directory.
.TP
.I PREFIX/share/doc/cubepi
The documentation:
.I cli.md
(this program),
.I errors.md
(its errors),
.I schema
and
.IR guides .
)";

std::string escaped(std::string_view text) {
    std::string roff;
    bool starts_line = true;
    for (const char c : text) {
        if (starts_line && (c == '.' || c == '\'')) roff += "\\&";
        starts_line = c == '\n';
        if (c == '\\') {
            roff += "\\e";
        } else if (c == '-') {
            roff += "\\-";
        } else {
            roff += c;
        }
    }
    return roff;
}

std::string label_of(const CLI::Option& option) {
    std::string label;
    for (const std::string& name : option.get_snames())
        label += (label.empty() ? "-" : ", -") + name;
    for (const std::string& name : option.get_lnames())
        label += (label.empty() ? "--" : ", --") + name;
    const std::string type = option.get_type_name();
    if (option.get_items_expected_max() > 0 && !type.empty()) label += " " + type;
    return label;
}

void print_options(const CLI::App& command) {
    for (const CLI::Option* option : command.get_options()) {
        if (option->get_positional()) continue;
        std::cout << ".TP\n.B " << escaped(label_of(*option)) << '\n'
                  << escaped(option->get_description()) << ".\n";
    }
}

void print_keys(const ChannelKind& kind) {
    std::cout << ".BR " << kind.name;
    const char* before = " \" (\" ";
    for (const ChannelKey& key : kind.keys)
        std::cout << std::exchange(before, " \", \" ") << key.path;
    std::cout << " \"),\"\n";
}

std::vector<const CLI::App*> visible_commands(const CLI::App& app) {
    return app.get_subcommands(
        [](const CLI::App* command) { return !command->get_group().empty(); });
}

void print_command(const CLI::App& command, const std::string& parents) {
    const std::string name = parents + " " + command.get_name();
    std::string arguments;
    std::string about;
    for (const CLI::Option* option : command.get_options()) {
        if (!option->get_positional()) continue;
        const std::string argument = option->get_name();
        arguments += option->get_required() ? " " + argument : " [" + argument + "]";
        about += ".TP\n.I " + escaped(argument) + "\n" + escaped(option->get_description()) + ".\n";
    }
    std::cout << ".SS " << escaped(name + arguments) << '\n'
              << escaped(command.get_description()) << ".\n"
              << about;
    print_options(command);
    for (const CLI::App* next : visible_commands(command)) print_command(*next, name);
}

}  // namespace

int man_page_command() {
    CommandLine line;
    CLI::App app("", "cubepi");
    add_commands(app, line, {});
    std::cout << ".TH CUBEPI 1 \"\" \"" << version_text() << "\" \"User Commands\"\n"
              << head << ".SH OPTIONS\n"
              << "These work without a command. A chat also takes the options of\n.BR \"cubepi "
                 "chat\" .\n";
    print_options(app);
    std::cout << ".SH COMMANDS\n";
    for (const CLI::App* command : visible_commands(app)) print_command(*command, "cubepi");
    std::cout << middle;
    for (const ChannelKind* kind : channel_kinds()) print_keys(*kind);
    std::cout << tail << ".SH EXAMPLES\n.nf\n";
    const std::string footer = app.get_footer();
    const std::size_t begin = footer.find('\n') + 1;
    std::cout << escaped(footer.substr(begin, footer.find("\n\n") - begin)) << "\n.fi\n";
    return exit_ok;
}

}  // namespace cubepi::app
