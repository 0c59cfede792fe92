#include <algorithm>
#include <exception>
#include <filesystem>
#include <utility>

#include <bub/framework.hpp>
#include <bub/kernel/framework_impl.hpp>
#include <cubepi/core/cancellation.hpp>

namespace bub {

namespace {

std::filesystem::path resolved(const std::filesystem::path& workspace) {
    std::error_code error;
    const std::filesystem::path given =
        workspace.empty() ? std::filesystem::current_path(error) : workspace;
    std::filesystem::path made = std::filesystem::weakly_canonical(given, error);
    return error ? std::filesystem::absolute(given, error) : made;
}

/// Throws only errors caused by `plugin`.
void check_name(const std::string& name, const std::vector<PluginStatus>& known) {
    if (name.empty()) {
        throw cubepi::Error(cubepi::ErrorCode::invalid_argument,
                            "a plugin needs a name: Plugin{.name = \"mine\", ...}");
    }
    const bool taken = std::any_of(known.begin(), known.end(), [&name](const PluginStatus& other) {
        return other.ok && other.name == name;
    });
    if (taken) {
        throw cubepi::Error(cubepi::ErrorCode::invalid_argument,
                            "a plugin named " + name + " is registered already");
    }
}

}  // namespace

Framework::Impl::Impl(FrameworkOptions given) : options(std::move(given)) {
    if (!options.runtime) options.runtime = cubepi::Runtime::standard();
    options.workspace = resolved(options.workspace);
    workspace = options.workspace.string();
    list = std::make_shared<const std::vector<std::shared_ptr<const Plugin>>>();
}

detail::PluginList Framework::Impl::plugins() const {
    const std::lock_guard lock(mutex);
    return list;
}

void Framework::Impl::insert(Plugin plugin) {
    check_name(plugin.name, status);
    PluginStatus made;
    made.name = plugin.name;
    made.ok = true;
    made.hooks = implemented_hooks(plugin);
    has_store = has_store || plugin.provide_tape_store;
    registered.push_back(std::make_shared<const Plugin>(std::move(plugin)));
    status.push_back(std::move(made));
    std::vector<std::shared_ptr<const Plugin>> order;
    for (const auto& each : registered) {
        const auto place = std::find_if(order.begin(), order.end(), [&each](const auto& other) {
            return other->priority <= each->priority;
        });
        order.insert(place, each);
    }
    const std::lock_guard lock(mutex);
    list = std::make_shared<const std::vector<std::shared_ptr<const Plugin>>>(std::move(order));
}

void Framework::Impl::warn(std::string_view event, std::initializer_list<cubepi::LogField> fields,
                           std::string text) const {
    options.runtime->log.write(cubepi::LogLevel::warning, event, fields);
    if (options.on_warning) options.on_warning(std::move(text));
}

Framework::Framework(FrameworkOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}

Framework::~Framework() = default;

void Framework::add(Plugin plugin) { impl_->insert(std::move(plugin)); }

bool Framework::load(std::string name, std::function<Plugin(Framework&)> factory) {
    std::exception_ptr failure;
    try {
        Plugin plugin = factory(*this);
        if (plugin.name.empty()) plugin.name = name;
        impl_->insert(std::move(plugin));
        return true;
    } catch (...) {
        failure = std::current_exception();
    }
    note_broken(std::move(name), describe(failure));
    return false;
}

void Framework::note_broken(std::string name, std::string reason) {
    impl_->warn("plugin.broken", {{"plugin", name}}, "plugin " + name + " is broken: " + reason);
    PluginStatus status;
    status.name = std::move(name);
    status.reason = std::move(reason);
    impl_->status.push_back(std::move(status));
}

const std::vector<PluginStatus>& Framework::plugin_status() const noexcept { return impl_->status; }

std::vector<HookUse> Framework::hook_report() const {
    const detail::PluginList plugins = impl_->plugins();
    std::vector<HookUse> report;
    for (const std::string_view hook : all_hook_names()) {
        HookUse use;
        use.hook = hook;
        for (const auto& plugin : *plugins) {
            const std::vector<std::string_view> has = implemented_hooks(*plugin);
            if (std::find(has.begin(), has.end(), hook) != has.end()) {
                use.plugins.push_back(plugin->name);
            }
        }
        if (!use.plugins.empty()) report.push_back(std::move(use));
    }
    return report;
}

std::vector<std::shared_ptr<const Plugin>> Framework::plugins() const { return *impl_->plugins(); }

void Framework::bind_router(std::shared_ptr<OutboundChannelRouter> router) {
    const std::lock_guard lock(impl_->mutex);
    impl_->router = std::move(router);
}

std::shared_ptr<OutboundChannelRouter> Framework::router() const {
    const std::lock_guard lock(impl_->mutex);
    return impl_->router;
}

const std::filesystem::path& Framework::workspace() const noexcept {
    return impl_->options.workspace;
}

const std::shared_ptr<const cubepi::Runtime>& Framework::runtime() const noexcept {
    return impl_->options.runtime;
}

const FrameworkOptions& Framework::options() const noexcept { return impl_->options; }

}  // namespace bub
