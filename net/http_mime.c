/* Media types: by extension from a table of our own (the machine's must not change an answer), and by content. */
#include "net/ascii.h"
#include "net/http_util.h"

struct ext_row {
    const char *ext, *type;
};

/* Sorted by extension, lower case; text kinds carry their charset.  ".ts" is video here: stores hold more segments than
 * sources. */
static const struct ext_row ext_table[] = {
    {".3gp", "video/3gpp"},
    {".7z", "application/x-7z-compressed"},
    {".aac", "audio/aac"},
    {".ai", "application/postscript"},
    {".aif", "audio/aiff"},
    {".aiff", "audio/aiff"},
    {".apk", "application/vnd.android.package-archive"},
    {".apng", "image/apng"},
    {".atom", "application/atom+xml"},
    {".avi", "video/x-msvideo"},
    {".avif", "image/avif"},
    {".azw", "application/vnd.amazon.ebook"},
    {".bat", "text/plain; charset=utf-8"},
    {".bin", "application/octet-stream"},
    {".bmp", "image/bmp"},
    {".br", "application/x-brotli"},
    {".bz2", "application/x-bzip2"},
    {".c", "text/x-c; charset=utf-8"},
    {".cab", "application/vnd.ms-cab-compressed"},
    {".cc", "text/x-c; charset=utf-8"},
    {".class", "application/java-vm"},
    {".conf", "text/plain; charset=utf-8"},
    {".cpp", "text/x-c; charset=utf-8"},
    {".crt", "application/x-x509-ca-cert"},
    {".css", "text/css; charset=utf-8"},
    {".csv", "text/csv; charset=utf-8"},
    {".dat", "application/octet-stream"},
    {".deb", "application/vnd.debian.binary-package"},
    {".dll", "application/octet-stream"},
    {".dmg", "application/octet-stream"},
    {".doc", "application/msword"},
    {".docm", "application/vnd.ms-word.document.macroenabled.12"},
    {".docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    {".dot", "application/msword"},
    {".dotx", "application/vnd.openxmlformats-officedocument.wordprocessingml.template"},
    {".dwg", "image/vnd.dwg"},
    {".dxf", "image/vnd.dxf"},
    {".ear", "application/java-archive"},
    {".eml", "message/rfc822"},
    {".eot", "application/vnd.ms-fontobject"},
    {".eps", "application/postscript"},
    {".epub", "application/epub+zip"},
    {".exe", "application/octet-stream"},
    {".f4v", "video/mp4"},
    {".flac", "audio/flac"},
    {".flv", "video/x-flv"},
    {".geojson", "application/geo+json"},
    {".gif", "image/gif"},
    {".glb", "model/gltf-binary"},
    {".gltf", "model/gltf+json"},
    {".go", "text/x-go; charset=utf-8"},
    {".gpx", "application/gpx+xml"},
    {".gz", "application/gzip"},
    {".h", "text/x-c; charset=utf-8"},
    {".heic", "image/heic"},
    {".heif", "image/heif"},
    {".hqx", "application/mac-binhex40"},
    {".htc", "text/x-component; charset=utf-8"},
    {".htm", "text/html; charset=utf-8"},
    {".html", "text/html; charset=utf-8"},
    {".icns", "image/icns"},
    {".ico", "image/x-icon"},
    {".ics", "text/calendar; charset=utf-8"},
    {".img", "application/octet-stream"},
    {".ini", "text/plain; charset=utf-8"},
    {".iso", "application/octet-stream"},
    {".jar", "application/java-archive"},
    {".java", "text/x-java; charset=utf-8"},
    {".jfif", "image/jpeg"},
    {".jnlp", "application/x-java-jnlp-file"},
    {".jp2", "image/jp2"},
    {".jpe", "image/jpeg"},
    {".jpeg", "image/jpeg"},
    {".jpg", "image/jpeg"},
    {".js", "text/javascript; charset=utf-8"},
    {".json", "application/json"},
    {".jsonl", "application/jsonl"},
    {".jsonld", "application/ld+json"},
    {".jxl", "image/jxl"},
    {".key", "application/vnd.apple.keynote"},
    {".kml", "application/vnd.google-earth.kml+xml"},
    {".kmz", "application/vnd.google-earth.kmz"},
    {".log", "text/plain; charset=utf-8"},
    {".lz4", "application/x-lz4"},
    {".m2ts", "video/mp2t"},
    {".m3u", "audio/x-mpegurl"},
    {".m3u8", "application/vnd.apple.mpegurl"},
    {".m4a", "audio/mp4"},
    {".m4s", "video/iso.segment"},
    {".m4v", "video/mp4"},
    {".map", "application/json"},
    {".markdown", "text/markdown; charset=utf-8"},
    {".md", "text/markdown; charset=utf-8"},
    {".mid", "audio/midi"},
    {".midi", "audio/midi"},
    {".mjs", "text/javascript; charset=utf-8"},
    {".mka", "audio/x-matroska"},
    {".mkv", "video/x-matroska"},
    {".mml", "text/mathml; charset=utf-8"},
    {".mobi", "application/x-mobipocket-ebook"},
    {".mov", "video/quicktime"},
    {".mp2", "audio/mpeg"},
    {".mp3", "audio/mpeg"},
    {".mp4", "video/mp4"},
    {".mpd", "application/dash+xml"},
    {".mpeg", "video/mpeg"},
    {".mpg", "video/mpeg"},
    {".mpga", "audio/mpeg"},
    {".msi", "application/x-msi"},
    {".msm", "application/octet-stream"},
    {".mts", "video/mp2t"},
    {".numbers", "application/vnd.apple.numbers"},
    {".odg", "application/vnd.oasis.opendocument.graphics"},
    {".odp", "application/vnd.oasis.opendocument.presentation"},
    {".ods", "application/vnd.oasis.opendocument.spreadsheet"},
    {".odt", "application/vnd.oasis.opendocument.text"},
    {".oga", "audio/ogg"},
    {".ogg", "audio/ogg"},
    {".ogv", "video/ogg"},
    {".ogx", "application/ogg"},
    {".opus", "audio/ogg"},
    {".otf", "font/otf"},
    {".p12", "application/x-pkcs12"},
    {".pages", "application/vnd.apple.pages"},
    {".parquet", "application/vnd.apache.parquet"},
    {".pdb", "application/x-pilot"},
    {".pdf", "application/pdf"},
    {".pem", "application/x-x509-ca-cert"},
    {".php", "application/x-httpd-php"},
    {".pl", "text/x-perl; charset=utf-8"},
    {".pm", "text/x-perl; charset=utf-8"},
    {".png", "image/png"},
    {".ppt", "application/vnd.ms-powerpoint"},
    {".pptm", "application/vnd.ms-powerpoint.presentation.macroenabled.12"},
    {".pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
    {".ps", "application/postscript"},
    {".psd", "image/vnd.adobe.photoshop"},
    {".py", "text/x-python; charset=utf-8"},
    {".qt", "video/quicktime"},
    {".ra", "audio/x-realaudio"},
    {".rar", "application/vnd.rar"},
    {".rb", "text/x-ruby; charset=utf-8"},
    {".rpm", "application/x-rpm"},
    {".rs", "text/rust; charset=utf-8"},
    {".rss", "application/rss+xml"},
    {".rst", "text/x-rst; charset=utf-8"},
    {".rtf", "application/rtf"},
    {".sea", "application/x-sea"},
    {".sh", "application/x-sh"},
    {".shtml", "text/html; charset=utf-8"},
    {".sit", "application/x-stuffit"},
    {".so", "application/octet-stream"},
    {".sql", "application/sql"},
    {".srt", "application/x-subrip"},
    {".stl", "model/stl"},
    {".svg", "image/svg+xml"},
    {".svgz", "image/svg+xml"},
    {".swf", "application/x-shockwave-flash"},
    {".tar", "application/x-tar"},
    {".tgz", "application/gzip"},
    {".tif", "image/tiff"},
    {".tiff", "image/tiff"},
    {".toml", "application/toml"},
    {".torrent", "application/x-bittorrent"},
    {".ts", "video/mp2t"},
    {".tsv", "text/tab-separated-values; charset=utf-8"},
    {".ttc", "font/collection"},
    {".ttf", "font/ttf"},
    {".txt", "text/plain; charset=utf-8"},
    {".vcf", "text/vcard; charset=utf-8"},
    {".vsd", "application/vnd.visio"},
    {".vtt", "text/vtt; charset=utf-8"},
    {".war", "application/java-archive"},
    {".wasm", "application/wasm"},
    {".wav", "audio/wav"},
    {".weba", "audio/webm"},
    {".webm", "video/webm"},
    {".webmanifest", "application/manifest+json"},
    {".webp", "image/webp"},
    {".wma", "audio/x-ms-wma"},
    {".wmf", "image/wmf"},
    {".wmv", "video/x-ms-wmv"},
    {".woff", "font/woff"},
    {".woff2", "font/woff2"},
    {".xhtml", "application/xhtml+xml"},
    {".xls", "application/vnd.ms-excel"},
    {".xlsm", "application/vnd.ms-excel.sheet.macroenabled.12"},
    {".xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {".xml", "text/xml; charset=utf-8"},
    {".xsl", "application/xslt+xml"},
    {".xslt", "application/xslt+xml"},
    {".xspf", "application/xspf+xml"},
    {".xz", "application/x-xz"},
    {".yaml", "application/yaml"},
    {".yml", "application/yaml"},
    {".zip", "application/zip"},
    {".zst", "application/zstd"},
};
#define EXT_ROWS (sizeof ext_table / sizeof ext_table[0])
#define EXT_MAX 15u

struct bytes http_mime_by_ext(struct bytes ext)
{
    char key[EXT_MAX + 1];
    size_t lo = 0, hi = EXT_ROWS;

    if (ext.n < 2 || ext.n > EXT_MAX)
        return BYTES_NONE;
    for (size_t i = 0; i < ext.n; i++)
        key[i] = ascii_lower(ext.p[i]);
    key[ext.n] = '\0';
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = strcmp(key, ext_table[mid].ext);
        if (c == 0)
            return bytes_str(ext_table[mid].type);
        if (c < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return BYTES_NONE;
}

/* ---- by content ---- */

#define SNIFF_MAX 512u /* bytes looked at, as browsers do */

struct magic_row {
    size_t n;
    const char *bytes, *type;
};
#define MAGIC(s, type) {sizeof(s) - 1, s, type}

static const struct magic_row magic_table[] = {
    MAGIC("%PDF-", "application/pdf"),
    MAGIC("%!PS-Adobe-", "application/postscript"),
    MAGIC("\xfe\xff", "text/plain; charset=utf-16be"),
    MAGIC("\xff\xfe", "text/plain; charset=utf-16le"),
    MAGIC("\xef\xbb\xbf", "text/plain; charset=utf-8"),
    MAGIC("\x00\x00\x01\x00", "image/x-icon"),
    MAGIC("\x00\x00\x02\x00", "image/x-icon"),
    MAGIC("BM", "image/bmp"),
    MAGIC("GIF87a", "image/gif"),
    MAGIC("GIF89a", "image/gif"),
    MAGIC("\x89PNG\r\n\x1a\n", "image/png"),
    MAGIC("\xff\xd8\xff", "image/jpeg"),
    MAGIC("II*\x00", "image/tiff"),
    MAGIC("MM\x00*", "image/tiff"),
    MAGIC("ID3", "audio/mpeg"),
    MAGIC("OggS\x00", "application/ogg"),
    MAGIC("fLaC", "audio/flac"),
    MAGIC("MThd\x00\x00\x00\x06", "audio/midi"),
    MAGIC("\x1a\x45\xdf\xa3", "video/webm"),
    MAGIC("\x00\x01\x00\x00", "font/ttf"),
    MAGIC("OTTO", "font/otf"),
    MAGIC("ttcf", "font/collection"),
    MAGIC("wOFF", "font/woff"),
    MAGIC("wOF2", "font/woff2"),
    MAGIC("\x1f\x8b\x08", "application/x-gzip"),
    MAGIC("PK\x03\x04", "application/zip"),
    MAGIC("Rar!\x1a\x07\x00", "application/x-rar-compressed"),
    MAGIC("Rar!\x1a\x07\x01\x00", "application/x-rar-compressed"),
    MAGIC("7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    MAGIC("\x28\xb5\x2f\xfd", "application/zstd"),
    MAGIC("\xfd" "7zXZ\x00", "application/x-xz"),
    MAGIC("\x00" "asm", "application/wasm"),
};

static const char *sniff_magic(struct bytes in)
{
    for (size_t i = 0; i < sizeof magic_table / sizeof magic_table[0]; i++) {
        const struct magic_row *m = &magic_table[i];
        if (in.n >= m->n && memcmp(in.p, m->bytes, m->n) == 0)
            return m->type;
    }
    return NULL;
}

/* RIFF and ISO media: a size stands before or inside the mark. */
static const char *sniff_container(struct bytes in)
{
    if (in.n >= 12 && memcmp(in.p, "RIFF", 4) == 0) {
        if (in.n >= 14 && memcmp(in.p + 8, "WEBPVP", 6) == 0)
            return "image/webp";
        if (memcmp(in.p + 8, "WAVE", 4) == 0)
            return "audio/wave";
        if (memcmp(in.p + 8, "AVI ", 4) == 0)
            return "video/avi";
    }
    if (in.n >= 12 && memcmp(in.p, "FORM", 4) == 0 && memcmp(in.p + 8, "AIFF", 4) == 0)
        return "audio/aiff";
    if (in.n >= 12 && memcmp(in.p + 4, "ftyp", 4) == 0) {
        if (memcmp(in.p + 8, "avif", 4) == 0)
            return "image/avif";
        if (memcmp(in.p + 8, "heic", 4) == 0)
            return "image/heic";
        if (memcmp(in.p + 8, "qt  ", 4) == 0)
            return "video/quicktime";
        return "video/mp4";
    }
    return NULL;
}

/* Markup: any case, and what follows must end the word, or "<Aardvark" would be a link. */
static bool starts_tag(struct bytes in, const char *tag)
{
    size_t n = strlen(tag);
    if (in.n < n + 1 || !bytes_ieq(bytes_of(in.p, n), bytes_of(tag, n)))
        return false;
    return in.p[n] == ' ' || in.p[n] == '>';
}

static const char *sniff_markup(struct bytes in)
{
    static const char *const tags[] = {
        "<!DOCTYPE HTML", "<HTML", "<HEAD", "<SCRIPT", "<IFRAME", "<H1", "<DIV", "<FONT", "<TABLE",
        "<A", "<STYLE", "<TITLE", "<B", "<BODY", "<BR", "<P",
    };
    while (in.n > 0 && in.p[0] != '\0' && strchr("\t\n\f\r ", in.p[0]) != NULL) {
        in.p++;
        in.n--;
    }
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++)
        if (starts_tag(in, tags[i]))
            return "text/html; charset=utf-8";
    if (in.n >= 4 && memcmp(in.p, "<!--", 4) == 0)
        return "text/html; charset=utf-8";
    if (in.n >= 5 && memcmp(in.p, "<?xml", 5) == 0)
        return "text/xml; charset=utf-8";
    return NULL;
}

static bool has_binary(struct bytes in)
{
    for (size_t i = 0; i < in.n; i++) {
        unsigned char c = (unsigned char)in.p[i];
        if (c <= 0x08 || c == 0x0b || (c >= 0x0e && c <= 0x1a) || (c >= 0x1c && c <= 0x1f))
            return true;
    }
    return false;
}

struct bytes http_mime_sniff(struct bytes head)
{
    if (head.n > SNIFF_MAX)
        head.n = SNIFF_MAX;
    const char *type = sniff_markup(head);
    if (type == NULL)
        type = sniff_magic(head);
    if (type == NULL)
        type = sniff_container(head);
    if (type == NULL)
        type = has_binary(head) ? "application/octet-stream" : "text/plain; charset=utf-8";
    return bytes_str(type);
}
