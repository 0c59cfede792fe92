#include <string>

#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/schema/json_convert.hpp>

#include "../config/paths.hpp"
#include "../failure.hpp"
#include "../process.hpp"
#include "../program.hpp"
#include "../terminal/terminal_stream.hpp"
#include "../terminal/terminal_text.hpp"
#include "control_server.hpp"
#include "gateway_api.hpp"

// The command `cubepi schedule`.

namespace cubepi::app {

namespace {

/// The gateway may have another version: members that it does not have are empty.
template <class T>
T read(const JsonObject& answer) {
    ReadOptions options;
    options.require_fields = false;
    return from_json<T>(answer, options);
}

void print_schedule(const ListedSchedule& one) {
    std::string text = one.text.substr(0, one.text.find('\n'));
    if (text.size() < one.text.size()) text += " ...";
    out() << for_terminal(one.id) << "\t" << for_terminal(one.session) << "\t"
          << for_terminal(one.user) << "\t" << for_terminal(one.times) << "\t"
          << for_terminal(one.next_text.empty() ? "-" : "next " + one.next_text) << "\t"
          << for_terminal(text);
    if (!one.problem.empty()) out() << "\tnot sent: " << for_terminal(one.problem);
    out() << "\n";
}

int list(const ScheduleCommandArguments& arguments) {
    const JsonObject answer = call_gateway(gateway_socket(), JsonObject{{"command", "schedules"}});
    if (arguments.json) {
        data_output(safe_json(answer) + "\n");
        return exit_ok;
    }
    const auto all = read<ListedSchedules>(answer);
    if (all.schedules.empty()) err() << "The gateway has no schedules.\n";
    for (const ListedSchedule& one : all.schedules) print_schedule(one);
    return exit_ok;
}

int add(const ScheduleCommandArguments& arguments, const std::string& text) {
    JsonObject request{{"command", "add_schedule"}, {"text", text}};
    request["channel"] = arguments.channel;
    request["chat"] = arguments.chat;
    request["session"] = arguments.session;
    request["user"] = arguments.user;
    request["zone"] = arguments.zone;
    request["skip_missed"] = arguments.skip_missed;
    if (!arguments.at.empty()) request["at"] = arguments.at;
    if (!arguments.every.empty()) request["every"] = arguments.every;
    if (!arguments.cron.empty()) request["cron"] = arguments.cron;
    const JsonObject answer = call_gateway(gateway_socket(), request);
    if (arguments.json) {
        data_output(safe_json(answer) + "\n");
        return exit_ok;
    }
    print_schedule(read<ListedSchedule>(answer));
    return exit_ok;
}

}  // namespace

int schedule_command(const CommandLine& line) {
    const ScheduleCommandArguments& arguments = line.schedule;
    switch (arguments.what) {
        case ScheduleCommandArguments::What::list: return list(arguments);
        case ScheduleCommandArguments::What::add: return add(arguments, prompt_of(line.words));
        case ScheduleCommandArguments::What::cancel: break;
    }
    (void)call_gateway(gateway_socket(),
                       JsonObject{{"command", "cancel_schedule"}, {"id", arguments.id}});
    err() << "Cancelled " << for_terminal(arguments.id) << ".\n";
    return exit_ok;
}

}  // namespace cubepi::app
