#pragma once

#include <string>

namespace cubepi::app {

/// True for postgres:// and postgresql://.
bool is_postgres_url(const std::string& text);

/// True if the URL contains a password.
bool has_password(const std::string& url);

}  // namespace cubepi::app
