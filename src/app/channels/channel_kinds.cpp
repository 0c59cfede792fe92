#include "channel_kinds.hpp"

namespace cubepi::app {

namespace {

std::vector<const ChannelKind*>& list() {
    static std::vector<const ChannelKind*> kinds{&http_kind, &telegram_kind};
    return kinds;
}

}  // namespace

const std::vector<const ChannelKind*>& channel_kinds() { return list(); }

std::string onboarding_commands() {
    std::string commands;
    for (const ChannelKind* kind : list()) {
        if (kind->onboard)
            commands += (commands.empty() ? "cubepi onboard " : ", cubepi onboard ") +
                        std::string(kind->name);
    }
    return commands;
}

void add_channel_kind(const ChannelKind& kind) { list().push_back(&kind); }

}  // namespace cubepi::app
