#include <bub/hooks.hpp>

#include <array>

namespace bub {

namespace {

struct HookName {
    std::string_view name;
    bool (*has)(const Plugin& plugin);
};

template <auto member>
bool has(const Plugin& plugin) {
    return static_cast<bool>(plugin.*member);
}

constexpr std::array<HookName, 26> hook_names = {{
    {"resolve_session", has<&Plugin::resolve_session>},
    {"load_state", has<&Plugin::load_state>},
    {"build_prompt", has<&Plugin::build_prompt>},
    {"run_model", has<&Plugin::run_model>},
    {"run_model_stream", has<&Plugin::run_model_stream>},
    {"continue_prompt", has<&Plugin::continue_prompt>},
    {"save_state", has<&Plugin::save_state>},
    {"render_outbound", has<&Plugin::render_outbound>},
    {"dispatch_outbound", has<&Plugin::dispatch_outbound>},
    {"on_error", has<&Plugin::on_error>},
    {"system_prompt", has<&Plugin::system_prompt>},
    {"before_llm_call", has<&Plugin::before_llm_call>},
    {"after_llm_call", has<&Plugin::after_llm_call>},
    {"before_tool_call", has<&Plugin::before_tool_call>},
    {"after_tool_call", has<&Plugin::after_tool_call>},
    {"admit_message", has<&Plugin::admit_message>},
    {"provide_steering_inbox", has<&Plugin::provide_steering_inbox>},
    {"provide_tape_store", has<&Plugin::provide_tape_store>},
    {"provide_tape_sidecar", has<&Plugin::provide_tape_sidecar>},
    {"provide_lifespan", has<&Plugin::provide_lifespan>},
    {"provide_environment", has<&Plugin::provide_environment>},
    {"build_tape_context", has<&Plugin::build_tape_context>},
    {"provide_channels", has<&Plugin::provide_channels>},
    {"provide_model_options", has<&Plugin::provide_model_options>},
    {"onboard_config", has<&Plugin::onboard_config>},
    {"register_cli_commands", has<&Plugin::register_cli_commands>},
}};

}  // namespace

std::vector<std::string_view> implemented_hooks(const Plugin& plugin) {
    std::vector<std::string_view> found;
    for (const HookName& hook : hook_names) {
        if (hook.has(plugin)) found.push_back(hook.name);
    }
    return found;
}

std::span<const std::string_view> all_hook_names() noexcept {
    static const auto names = [] {
        std::array<std::string_view, hook_names.size()> list;
        for (std::size_t i = 0; i < list.size(); ++i) list[i] = hook_names[i].name;
        return list;
    }();
    return names;
}

}  // namespace bub
