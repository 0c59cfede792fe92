#include <cubepi/acp/agent.hpp>

#include <array>
#include <utility>

namespace cubepi {

std::string_view to_string(AcpStop stop) noexcept {
    static constexpr std::array<std::string_view, 5> names{
        "end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"};
    return names[static_cast<std::size_t>(stop)];
}

Task<> AcpSession::set_mode(std::string id) {
    throw AcpError(acp_error::invalid_params, "there is no mode '" + id + "'");
    co_return;
}

Task<> AcpSession::set_option(std::string id, std::string) {
    throw AcpError(acp_error::invalid_params, "there is no option '" + id + "'");
    co_return;
}

AcpOption acp_mode_option(const AcpSession& session) {
    AcpOption option;
    option.id = "mode";
    option.name = "Mode";
    option.category = "mode";
    option.current = session.mode();
    option.choices = session.modes();
    return option;
}

Task<std::shared_ptr<AcpSession>> AcpHost::open(std::shared_ptr<AcpEditor>, std::string, AcpSetup) {
    throw AcpError(acp_error::method_not_found, "this agent does not save sessions");
    co_return nullptr;
}

Task<AcpSessionList> AcpHost::list(std::string, std::string) {
    throw AcpError(acp_error::method_not_found, "this agent does not save sessions");
    co_return AcpSessionList();
}

Task<> AcpHost::remove(std::string) {
    throw AcpError(acp_error::method_not_found, "this agent does not save sessions");
    co_return;
}

}  // namespace cubepi
