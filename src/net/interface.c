/* Addresses of this host. */
#include "net/interface.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void gr_address_text(const struct sockaddr *a, char out[GR_ADDRESS_TEXT])
{
    const void *bytes = NULL;
    int family = a->sa_family;

    if (family == AF_INET) {
        bytes = &((const struct sockaddr_in *)(const void *)a)->sin_addr;
    } else if (family == AF_INET6) {
        const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;

        bytes = v6;
        if (IN6_IS_ADDR_V4MAPPED(v6)) {
            family = AF_INET;
            bytes = v6->s6_addr + 12;
        }
    }
    if (!bytes || !inet_ntop(family, bytes, out, GR_ADDRESS_TEXT))
        snprintf(out, GR_ADDRESS_TEXT, "?");
}

void gr_address_of_peer(int fd, char out[GR_ADDRESS_TEXT])
{
    struct sockaddr_storage a = { 0 };
    socklen_t len = sizeof(a);

    (void)getpeername(fd, (struct sockaddr *)&a, &len); /* a stays of no family when it fails */
    gr_address_text((const struct sockaddr *)&a, out);
}

void gr_address_of_self(int fd, char out[GR_ADDRESS_TEXT])
{
    struct sockaddr_storage a = { 0 };
    socklen_t len = sizeof(a);

    (void)getsockname(fd, (struct sockaddr *)&a, &len);
    gr_address_text((const struct sockaddr *)&a, out);
}

/* ---- the interface to use ---- */

static bool matches(const char *name, const char *list, bool whole)
{
    while (*list) {
        size_t len = strcspn(list, ",");

        if (len > 0 && strncmp(name, list, len) == 0 && (!whole || name[len] == '\0'))
            return true;
        list += len + (list[len] == ',');
    }
    return false;
}

static bool is_usable(const struct ifaddrs *i, int family)
{
    return i->ifa_addr && i->ifa_addr->sa_family == family && (i->ifa_flags & IFF_UP);
}

static gr_status fail_none(const struct ifaddrs *list, const char *variable, const char *pattern)
{
    gr_text names = GR_TEXT_INIT;
    gr_status st;

    for (const struct ifaddrs *i = list; i; i = i->ifa_next)
        if (is_usable(i, AF_INET))
            gr_text_addf(&names, "%s%s", names.len ? ", " : "", i->ifa_name);
    st = gr_fail(GR_ERR_ARG, "%s is '%.80s', but no network interface is called so; there are %s",
                 variable, pattern, gr_text_str(&names));
    gr_text_fini(&names);
    return st;
}

gr_status gr_interface_address(char out[GR_ADDRESS_TEXT])
{
    static const int families[] = { AF_INET, AF_INET6 };
    const char *variable = "GR_SOCKET_IFNAME", *pattern = getenv(variable);
    bool whole, except;
    struct ifaddrs *list;
    gr_status st = GR_OK;

    if (!pattern || !*pattern) {
        variable = "NCCL_SOCKET_IFNAME";
        pattern = getenv(variable);
    }
    *out = '\0';
    if (!pattern || !*pattern)
        return GR_OK;
    except = *pattern == '^';
    whole = pattern[except] == '=';
    if (getifaddrs(&list) != 0)
        return gr_fail(GR_ERR_IO, "the network interfaces cannot be listed");
    for (int f = 0; f < 2 && !*out; f++)
        for (const struct ifaddrs *i = list; i && !*out; i = i->ifa_next)
            if (is_usable(i, families[f]) &&
                matches(i->ifa_name, pattern + except + whole, whole) != except)
                gr_address_text(i->ifa_addr, out);
    if (!*out)
        st = fail_none(list, variable, pattern);
    freeifaddrs(list);
    return st;
}

/* ---- whose address ---- */

static bool is_loopback(const char *text)
{
    return strncmp(text, "127.", 4) == 0 || strcmp(text, "::1") == 0;
}

static bool is_ours(const struct ifaddrs *list, const char *text)
{
    char mine[GR_ADDRESS_TEXT];

    if (is_loopback(text))
        return true;
    for (const struct ifaddrs *i = list; i; i = i->ifa_next)
        if (i->ifa_addr) {
            gr_address_text(i->ifa_addr, mine);
            if (strcmp(mine, text) == 0)
                return true;
        }
    return false;
}

static bool check_host(const char *host, bool only_loopback)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list;
    struct ifaddrs *mine = NULL;
    bool all = true, any = false;

    if (getaddrinfo(host, NULL, &hints, &list) != 0)
        return false;
    (void)getifaddrs(&mine); /* without a list only loopback is ours */
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        char text[GR_ADDRESS_TEXT];

        gr_address_text(a->ai_addr, text);
        any = any || is_ours(mine, text);
        all = all && is_loopback(text);
    }
    freeaddrinfo(list);
    freeifaddrs(mine);
    return only_loopback ? all : any;
}

/* The host's own name counts even while nobody can resolve it. */
static bool is_own_name(const char *host)
{
    char name[256];
    size_t len;

    if (gethostname(name, sizeof(name)) != 0)
        return false;
    name[sizeof(name) - 1] = '\0';
    len = strlen(name);
    return len > 0 && strncmp(host, name, len) == 0 && (host[len] == '\0' || host[len] == '.');
}

bool gr_interface_is_local(const char *host)
{
    return is_own_name(host) || check_host(host, false);
}

bool gr_interface_is_one_of(const char *address, const char *host)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list;
    bool found = false;

    if (getaddrinfo(host, NULL, &hints, &list) != 0)
        return false;
    for (const struct addrinfo *a = list; a && !found; a = a->ai_next) {
        char text[GR_ADDRESS_TEXT];

        gr_address_text(a->ai_addr, text);
        found = strcmp(text, address) == 0;
    }
    freeaddrinfo(list);
    return found;
}

bool gr_interface_resolves(const char *host)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list;

    if (getaddrinfo(host, NULL, &hints, &list) != 0)
        return false;
    freeaddrinfo(list);
    return true;
}

bool gr_interface_is_loopback(const char *host)
{
    return check_host(host, true);
}
