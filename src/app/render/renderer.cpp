#include "renderer.hpp"

#include <cubepi/core/json.hpp>

namespace cubepi::app {

bool is_redundant(const AgentEvent& event) {
    const auto* notice = event.get_if<NoticeEvent>();
    if (!notice || notice->notice.code != "hitl_request_ended") return false;
    const Json* outcome = notice->notice.details.if_contains("outcome");
    return outcome && *outcome == "aborted";
}

}  // namespace cubepi::app
