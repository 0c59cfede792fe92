#include <gtest/gtest.h>

#include <string>

#include <cubepi/core/error.hpp>
#include <cubepi/net/server/route_table.hpp>

namespace cubepi::detail {
namespace {

HttpServer::Handler nothing() {
    return [](ServerRequest) -> Task<ServerResponse> { co_return ServerResponse(); };
}

RouteTable table() {
    RouteTable routes;
    routes.add("GET", "/", nothing());
    routes.add("GET", "/v1/questions", nothing());
    routes.add("GET", "/v1/questions/{id}", nothing());
    routes.add("POST", "/v1/questions/{id}", nothing());
    routes.add("POST", "/v1/questions/all", nothing());
    return routes;
}

/// Returns the pattern of the route, "405 METHODS", or "404".
std::string matched(const std::string& method, const std::string& path) {
    const RouteTable routes = table();
    ServerRequest request;
    request.method = method;
    request.path = path;
    const RouteMatch match = routes.match(request);
    if (!match.route) return match.allowed.empty() ? "404" : "405 " + match.allowed;
    std::string text = match.route->pattern;
    for (const auto& [name, value] : request.parameters) text += " " + name + "=" + value;
    return text;
}

TEST(RouteTable, FindsTheRouteOfAPath) {
    EXPECT_EQ(matched("GET", "/"), "/");
    EXPECT_EQ(matched("GET", "/v1/questions"), "/v1/questions");
    EXPECT_EQ(matched("GET", "/v1/questions/a"), "/v1/questions/{id} id=a");
    EXPECT_EQ(matched("GET", "/v1/questions/a/b"), "404");
    EXPECT_EQ(matched("GET", "/v1/questions/"), "404") << "a placeholder is not empty";
    EXPECT_EQ(matched("GET", "v1"), "404");
    EXPECT_EQ(matched("GET", ""), "404");
}

TEST(RouteTable, ParametersAreDecodedAfterTheyAreSeparated) {
    EXPECT_EQ(matched("GET", "/v1/questions/a%2Fb%20c"), "/v1/questions/{id} id=a/b c");
    EXPECT_EQ(matched("GET", "/v1/questions/a%2"), "404");
    EXPECT_EQ(matched("GET", "/v1/questions/%zz"), "404");
}

TEST(RouteTable, TheFirstRouteThatMatchesIsUsed) {
    EXPECT_EQ(matched("POST", "/v1/questions/all"), "/v1/questions/{id} id=all");
}

TEST(RouteTable, OtherMethodsAreNamed) {
    EXPECT_EQ(matched("DELETE", "/v1/questions/a"), "405 GET, POST");
    EXPECT_EQ(matched("HEAD", "/v1/questions"), "/v1/questions") << "as GET";
}

TEST(RouteTable, RefusesAPatternThatIsNotAPath) {
    RouteTable routes;
    EXPECT_THROW(routes.add("GET", "v1", nothing()), Error);
    EXPECT_THROW(routes.add("GET", "/v1", nullptr), Error);
}

}  // namespace
}  // namespace cubepi::detail
