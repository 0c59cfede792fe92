#include <algorithm>
#include <string>
#include <utility>

#include <bub/channel/channel_manager.hpp>
#include <bub/channel/http_channel.hpp>
#include <bub/schedule/schedule.hpp>
#include <cubepi/core/error.hpp>
#include <cubepi/core/json.hpp>
#include <cubepi/core/runtime.hpp>
#include <cubepi/core/support/digest.hpp>
#include <cubepi/core/support/json_member.hpp>

#include "../config/paths.hpp"
#include "../failure.hpp"
#include "../process.hpp"
#include "../program.hpp"
#include "../terminal/terminal_stream.hpp"
#include "../terminal/terminal_text.hpp"
#include "control_server.hpp"
#include "gateway_api.hpp"
#include "gateway_instance.hpp"

// The schedules of a gateway as operations of its operators.

namespace cubepi::app {

namespace {

std::shared_ptr<bub::ScheduleStore> store_of(const GatewayInstance& instance) {
    if (instance.schedules()) return instance.schedules();
    throw Error(ErrorCode::invalid_state,
                "this gateway has no schedules: its database has no tables for them. Run: cubepi "
                "db migrate --tapes, then restart the gateway");
}

/// Throws Error(invalid_argument) for a chat whose answers no client could read.
void check_chat(const std::string& channel, const std::string& chat) {
    if (channel == "http") bub::check_http_chat(chat);
}

ListedSchedule listed(const bub::Schedule& schedule) {
    const bub::Envelope origin{JsonObject(schedule.origin)};
    ListedSchedule made;
    made.id = schedule.id;
    made.session = schedule.session;
    made.channel = origin.channel.value_or("");
    made.chat = origin.chat_id.value_or("");
    made.user = detail::text_member(origin.context, "sender_id");
    made.times = bub::describe(schedule.times);
    if (schedule.next) {
        made.next = static_cast<double>(*schedule.next);
        made.next_text = bub::instant_text(*schedule.next, schedule.times.zone);
    }
    if (schedule.last) made.last = static_cast<double>(*schedule.last);
    made.problem = schedule.problem;
    made.configured = schedule.configured;
    made.text = schedule.text;
    return made;
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
    const auto all = read_answer<ListedSchedules>(answer);
    if (all.schedules.empty()) err() << "The gateway has no schedules.\n";
    for (const ListedSchedule& one : all.schedules) print_schedule(one);
    return exit_ok;
}

int add(const ScheduleCommandArguments& arguments, const std::string& text) {
    check_chat(arguments.channel, arguments.chat);
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
    print_schedule(read_answer<ListedSchedule>(answer));
    return exit_ok;
}

}  // namespace

Task<ListedSchedules> GatewayApi::schedules(NoArguments) {
    const std::shared_ptr<bub::ScheduleStore> store = store_of(*gateway_.instance());
    const std::vector<bub::Schedule> all = co_await store->list(std::string());
    ListedSchedules list;
    for (const bub::Schedule& one : all) list.schedules.push_back(listed(one));
    co_return list;
}

Task<ListedSchedule> GatewayApi::add_schedule(ScheduleArguments given) {
    const std::shared_ptr<GatewayInstance> instance = gateway_.instance();
    const std::shared_ptr<bub::ScheduleStore> store = store_of(*instance);
    const auto channels = co_await instance->manager().enabled_channels();
    const bool is_served = std::any_of(channels.begin(), channels.end(), [&given](const auto& one) {
        return one->name() == given.channel;
    });
    if (!is_served || given.chat.empty())
        throw Error(ErrorCode::invalid_argument,
                    "a schedule needs a channel that this gateway serves, and a chat of it");
    check_chat(given.channel, given.chat);
    constexpr std::size_t digits = 10;
    bub::Envelope origin;
    origin.channel = given.channel;
    origin.chat_id = given.chat;
    origin.context["sender_id"] = given.user.empty() ? given.chat : given.user;
    bub::Schedule schedule;
    schedule.id = detail::sha256_hex(Runtime::standard()->ids->next()).substr(0, digits);
    schedule.session = given.session.empty() ? bub::default_session(origin) : given.session;
    schedule.origin = bub::schedule_origin(origin);
    schedule.text = std::move(given.text);
    if (given.skip_missed) schedule.missed = bub::MissedFirings::skip;
    schedule.created = co_await store->now();
    bub::ScheduleRequest request;
    request.at = std::move(given.at);
    request.every = std::move(given.every);
    request.cron = std::move(given.cron);
    request.zone = given.zone.empty() ? instance->settings().time_zone : std::move(given.zone);
    schedule.times = bub::schedule_times(request, schedule.created);
    schedule.next = bub::first_firing(schedule.times, schedule.created);
    ListedSchedule added = listed(schedule);
    (void)co_await store->add(std::move(schedule));
    co_return added;
}

Task<Done> GatewayApi::cancel_schedule(NamedArguments which) {
    const std::shared_ptr<bub::ScheduleStore> store = store_of(*gateway_.instance());
    const std::optional<bub::Schedule> found = co_await store->find(which.id);
    if (!found)
        throw Error(ErrorCode::not_found,
                    "no schedule '" + which.id + "'; list them with: cubepi schedule");
    if (found->configured)
        throw Error(ErrorCode::invalid_state,
                    "'" + which.id +
                        "' is part of the configuration file; remove it from gateway.schedule, "
                        "and run: cubepi gateway reload");
    (void)co_await store->remove(std::move(which.id));
    co_return Done();
}

// The command `cubepi schedule`.

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
