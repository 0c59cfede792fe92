#include "kinds.hpp"

namespace conformance {

std::vector<std::string> check_wire(const Json&) { throw Unsupported("wire"); }

}  // namespace conformance
