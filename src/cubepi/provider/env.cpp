#include <cubepi/provider/env.hpp>

#include <cstdlib>

namespace cubepi {

std::string env(const char* name) {
    const char* value = std::getenv(name);
    return value ? std::string(value) : std::string();
}

}  // namespace cubepi
