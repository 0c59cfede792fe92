#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cubepi::app {

/// The arguments of `cubepi gateway`.
struct GatewayArguments {
    enum class What : std::uint8_t {
        run,
        status,
        sessions,
        held,
        release,
        discard,
        reload,
        drain,
        install,
        uninstall
    };
    What what = What::run;
    std::vector<std::string> channels = {};  ///< --enable-channel
    std::string id = {};                     ///< of a held message or answer
    bool json = false;
};

}  // namespace cubepi::app
