// The only file of the tests that is compiled with paths of the machine, so that all clones can share the others in a compiler cache.
#include "source_tree.hpp"

namespace cubepi::testing {

std::string source_path(std::string_view name) {
    return CUBEPI_SOURCE_TREE "/" + std::string(name);
}

std::string built_program(std::string_view name) {
    return CUBEPI_BUILT_PROGRAMS "/" + std::string(name);
}

}  // namespace cubepi::testing
