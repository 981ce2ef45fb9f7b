"""One line chart as SVG, by hand: series of requests a second over time."""

WIDTH, HEIGHT = 800, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 50, 55
COLORS = ('#0b62a4', '#d1495b', '#3a7d44', '#8a5a00')
DASHES = ('', '6 3', '2 3', '8 3 2 3')


def nice_step(top, ticks):
    """A step of 1, 2 or 5 times a power of ten that cuts 0..top into about that many parts."""
    raw, power = max(top, 1e-9) / ticks, 1.0
    while power * 10 <= raw:
        power *= 10
    while power > raw:
        power /= 10
    return next(power * m for m in (1, 2, 5, 10) if power * m >= raw)


def line_chart(title, x_name, y_name, series):
    """series: [(name, [y, ...])], one value a second."""
    top = max([v for _, values in series for v in values] + [1]) * 1.08
    last = max([len(values) for _, values in series] + [2])
    inner_w, inner_h = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(i):
        return LEFT + inner_w * i / last

    def y(v):
        return TOP + inner_h * (1 - v / top)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
           'font-family="sans-serif" font-size="13" fill="#222">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
           f'<text x="{LEFT}" y="20" font-size="15">{title}</text>']
    step, v = nice_step(top, 6), 0.0
    while v <= top:
        out.append(f'<path d="M{LEFT} {y(v):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 8}" y="{y(v) + 4:.1f}" text-anchor="end">{v:,.0f}</text>')
        v += step
    step, v = nice_step(last, 10), 0.0
    while v <= last:
        out.append(f'<path d="M{x(v):.1f} {HEIGHT - BOTTOM}v5" stroke="#222"/>'
                   f'<text x="{x(v):.1f}" y="{HEIGHT - BOTTOM + 19}" text-anchor="middle">{v:,.0f}</text>')
        v += step
    out.append(f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" fill="none" stroke="#222"/>')
    out.append(f'<text x="{LEFT + inner_w / 2:.0f}" y="{HEIGHT - 12}" text-anchor="middle">{x_name}</text>')
    out.append(f'<text transform="translate(18 {TOP + inner_h / 2:.0f}) rotate(-90)" text-anchor="middle">{y_name}</text>')
    for n, (name, values) in enumerate(series):
        color, dash = COLORS[n % len(COLORS)], DASHES[n % len(DASHES)]
        points = ' '.join(f'{x(i + 1):.1f},{y(v):.1f}' for i, v in enumerate(values))
        out.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2" stroke-dasharray="{dash}"/>')
        at = LEFT + 20 + n * 180
        out.append(f'<path d="M{at} 38h28" stroke="{color}" stroke-width="2" stroke-dasharray="{dash}"/>'
                   f'<text x="{at + 34}" y="42">{name}</text>')
    out.append('</svg>')
    return '\n'.join(out) + '\n'
