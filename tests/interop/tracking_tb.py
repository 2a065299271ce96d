"""Event files of ours, read by TensorBoard. usage: tracking_tb.py RUN simple|tensor"""

import sys

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.util import tensor_util


def check(condition, what):
    if not condition:
        sys.exit(f"tracking_tb.py: {what}")


def series(events, tag, form):
    """(step, value) of a scalar, however it is stored."""
    if form == "simple":
        return [(e.step, e.value) for e in events.Scalars(tag)]
    return [(e.step, float(tensor_util.make_ndarray(e.tensor_proto))) for e in events.Tensors(tag)]


def hparams(events, tag):
    content = events.SummaryMetadata(tag).plugin_data.content
    return plugin_data_pb2.HParamsPluginData.FromString(content)


def check_hparams(events):
    start = hparams(events, "_hparams_/session_start_info").session_start_info
    check(start.hparams["lr"].number_value == 0.125, f"lr: {start}")
    check(start.hparams["model"].string_value == 'resnet "18"', f"model: {start}")
    check(start.hparams["amp"].bool_value is True, f"amp: {start}")
    experiment = hparams(events, "_hparams_/experiment").experiment
    check([h.name for h in experiment.hparam_infos] == ["lr", "model", "amp"], f"{experiment}")
    check(experiment.metric_infos[0].name.tag == "val_loss", f"{experiment}")
    check(hparams(events, "_hparams_/session_end_info").session_end_info.status == 1, "status")


def main():
    folder, form = sys.argv[1:]
    events = event_accumulator.EventAccumulator(
        folder + "/tensorboard", size_guidance={k: 0 for k in event_accumulator.DEFAULT_SIZE_GUIDANCE}
    )
    events.Reload()
    check(events.file_version == 2.0, f"version {events.file_version}")
    loss = series(events, "loss", form)
    check([s for s, _ in loss] == list(range(40)), f"steps {loss}")
    check(all(abs(v - 1 / (s + 1)) < 1e-6 for s, v in loss), f"values {loss}")
    check([s for s, _ in series(events, "val_loss", form)] == [19, 39], "val_loss")
    if form == "tensor":
        check(events.SummaryMetadata("loss").plugin_data.plugin_name == "scalars", "plugin")

    image = events.Images("sample")[0]
    check((image.width, image.height, image.step) == (4, 3, 5), f"image {image}")
    check(image.encoded_image_string[:8] == b"\x89PNG\r\n\x1a\n", "no PNG")
    try:
        import io

        from PIL import Image

        pixels = Image.open(io.BytesIO(image.encoded_image_string)).convert("RGB").tobytes()
        check(pixels == bytes(7 * i % 256 for i in range(36)), "other pixels")
    except ImportError:
        pass
    text = tensor_util.make_ndarray(events.Tensors("notes/text_summary")[0].tensor_proto)
    check(text.shape == (1,) and text[0].decode() == "**bold** é ?", f"text {text}")
    histogram = events.Histograms("weights")[0].histogram_value
    check(histogram.num == 1000 and histogram.min == -3, f"histogram {histogram}")
    check(sum(histogram.bucket) == 1000, "counts")
    below = sum(c for limit, c in zip(histogram.bucket_limit, histogram.bucket) if limit <= 0)
    check(below == 300, f"{below} values below zero, not 300")
    check(histogram.bucket_limit == sorted(histogram.bucket_limit), "limits")
    check_hparams(events)
    print("TensorBoard reads", form)


main()
