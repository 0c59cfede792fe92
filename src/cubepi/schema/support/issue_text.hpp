#pragma once

#include <string>

#include <cubepi/schema/issue.hpp>

namespace cubepi::detail {

/// Returns "PATH: MESSAGE", each cut at a length for a message; the message alone if it is about the whole value.
std::string issue_text(const SchemaIssue& issue);

}  // namespace cubepi::detail
