#include "database_url.hpp"

#include <string_view>

namespace cubepi::app {

bool is_postgres_url(const std::string& text) {
    return text.starts_with("postgres://") || text.starts_with("postgresql://");
}

bool has_password(const std::string& url) {
    const std::string_view text = url;
    if (text.find("password=") != text.npos) return true;
    const std::size_t scheme = text.find("://");
    if (scheme == text.npos) return false;
    const std::string_view user = text.substr(scheme + 3, text.rfind('@') - scheme - 3);
    return text.rfind('@') != text.npos && user.find(':') != user.npos;
}

}  // namespace cubepi::app
