// `cubepi inbox --gateway`: the questions of the running gateway.

#include <algorithm>
#include <string>

#include <cubepi/core/support/json_member.hpp>

#include "../commands.hpp"
#include "../config/paths.hpp"
#include "../exit_code.hpp"
#include "../local_time.hpp"
#include "../terminal/safe_json.hpp"
#include "../terminal/terminal_stream.hpp"
#include "control_client.hpp"

namespace cubepi::app {

namespace {

using detail::object_member;
using detail::string_member;
using detail::text_member;
using What = InboxArguments::What;

/// A question as the gateway describes it.
struct GatewayQuestion {
    explicit GatewayQuestion(const JsonObject& object) : all(object) {
        if (const JsonObject* const request = object_member(object, "request")) {
            id = text_member(*request, "question_id");
            const Json* const created = request->if_contains("created_at");
            if (created && created->is_number()) created_at = created->to_number<double>();
        }
        if (const JsonObject* const asker = object_member(object, "asker")) {
            session = text_member(*asker, "session");
            user = text_member(*asker, "user");
        }
        summary = text_member(object, "summary");
        std::replace(summary.begin(), summary.end(), '\n', ' ');
    }

    const JsonObject& all;
    std::string id = {};
    double created_at = 0;
    std::string session = {};
    std::string user = {};
    std::string summary = {};
};

JsonObject call(std::string_view command) {
    return call_gateway(gateway_socket(), JsonObject{{"command", command}});
}

void print_question(const GatewayQuestion& question) {
    out() << for_terminal(question.id) << "\t" << for_terminal(local_time(question.created_at))
          << "\t" << for_terminal(question.session) << "\t"
          << for_terminal(question.user.empty() ? "-" : question.user) << "\t"
          << for_terminal(question.summary) << "\n";
}

int list_questions(const InboxArguments& arguments, bool json) {
    const JsonObject answer = call("questions");
    if (json) {
        data_output(safe_json(answer.at("questions")) + "\n");
        return exit_ok;
    }
    std::size_t shown = 0;
    for (const Json& one : answer.at("questions").as_array()) {
        const GatewayQuestion question(one.as_object());
        if (!question.id.starts_with(arguments.question)) continue;
        if (!arguments.session.empty() && arguments.session != question.session) continue;
        print_question(question);
        ++shown;
    }
    if (shown == 0) err() << "No question of the gateway waits for an answer.\n";
    return exit_ok;
}

const char* action_of(What what) {
    switch (what) {
        case What::approve: return "approve";
        case What::deny: return "deny";
        case What::cancel: return "cancel";
        default: return "answer";
    }
}

}  // namespace

int gateway_inbox(const CommandLine& line) {
    const InboxArguments& inbox = line.inbox;
    if (inbox.what == What::list || inbox.what == What::show)
        return list_questions(inbox, line.conversation.json);
    const JsonObject request{{"command", "answer"},
                             {"question", inbox.question},
                             {"action", action_of(inbox.what)},
                             {"text", inbox.value}};
    const JsonObject answered = call_gateway(gateway_socket(), request);
    err() << "The gateway continues the session " << for_terminal(text_member(answered, "session"))
          << "; its chat receives the answer.\n";
    return exit_ok;
}

}  // namespace cubepi::app
