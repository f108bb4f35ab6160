"""Prose that does not repeat itself: as the whole answer, and as a JSON string."""

from __future__ import annotations

import json

from speculation_documents import Task, object_schema

__all__ = ["prose_tasks", "string_tasks"]

_STORIES = {
    "a lock-keeper": (
        "Morwenna had kept the lock for thirty winters and could name every barge by the cough of its "
        "engine. On the night the canal froze she walked along the towpath with a lantern, tapping the "
        "ice with her stick, listening. Near the third bridge something tapped back. She stood quite "
        "still, counted to nine, and then, because there was nobody to laugh at her, tapped out the "
        "beginning of an old dance tune. The answer came at once, a little flat, two beats late."
    ),
    "the history of the pencil": (
        "Graphite was found under a fallen oak in Cumberland, or so the story goes, and shepherds marked "
        "their flocks with lumps of it. Wrapped in string, later glued between strips of cedar, it became "
        "an instrument that engineers, carpenters and poets have trusted ever since. Conté mixed powdered "
        "graphite with clay when war cut France off from English mines; by changing the proportions he "
        "could make the line harder or softer. Yellow paint, now so familiar, once hinted at Chinese origin."
    ),
    "why bread rises": (
        "Knead flour with water and two proteins link into an elastic net. Yeast, fed by sugars that "
        "enzymes cut from starch, breathes out carbon dioxide, which cannot escape and blows thousands of "
        "small balloons. Salt slows the process down and tightens the mesh. In the oven the gas expands, "
        "alcohol evaporates, and for a few minutes everything swells at once. Around seventy degrees the "
        "walls set, bubbles burst into each other, and what was foam turns into sponge."
    ),
    "a lost umbrella": (
        "It spent its first week on the luggage rack of a train to the coast, unnoticed between a cello "
        "and somebody's skis. A conductor tried it once in heavy rain, found that one rib was bent, and "
        "handed it over at the terminus. There it hung among forty others, all black. When a child with "
        "red boots finally chose it, on account of the parrot carved into its handle, the clerk wrote "
        "nothing in his ledger. Some departures, he believed, ought not to be recorded."
    ),
    "sharpening a chisel": (
        "Begin with the back, not the bevel: lay it flat upon the coarse stone and rub until the scratches "
        "run evenly from corner to corner. Only then raise the handle to about twenty-five degrees. Draw "
        "the tool towards you, lightly, adding water whenever the slurry dries. A fine wire forms along "
        "the edge; you will feel it before you see it. Turn the blade over, take it off with one gentle "
        "stroke, and test the result across end grain of pine rather than on your thumb."
    ),
    "a town without clocks": (
        "Visitors find Averil restful for an afternoon and unbearable by dusk. Shops open after the smell "
        "of coffee has reached them; the ferry leaves once its captain runs out of jokes. Marriages, "
        "I was told, are announced when two chairs have stood side by side long enough for moss. I asked "
        "the mayor how anyone caught a doctor. She considered this while peeling an apple in a single "
        "ribbon. People here, she said at last, fall ill slowly and with good manners."
    ),
    "how tides work": (
        "Pull on a loose blanket from one corner and the whole bed follows, unevenly. The moon does much "
        "the same to oceans: water nearest to it is drawn more strongly than the planet's centre, while "
        "the far side lags behind, so two bulges form. Because the ground turns beneath them, most "
        "coasts meet both within a day. Narrow bays exaggerate the effect until boats lean on mud; small "
        "enclosed seas hardly notice. Twice a month our star lends its weight, and harbours overflow."
    ),
    "a quarrel about chess": (
        "Neither of them would admit to having moved the bishop. Aunt Philippa claimed the cat had done "
        "it; Cousin Bertrand, who was allergic, replied that no animal had entered since Easter. They "
        "reconstructed the position from memory, disagreed over a pawn, and sent for the vicar. He "
        "arrived with mud on his cassock, studied both versions, and pointed out that White, in either "
        "case, had been mated several turns ago. Supper passed in silence, apart from the soup."
    ),
    "the first night in a new house": (
        "Every building has its vocabulary and you lie awake learning it. That long sigh must be the "
        "boiler. Something ticks inside the chimney breast, cooling brick perhaps, then stops as if it "
        "knew. Headlights slide over a ceiling whose cracks you have yet to give names. At four, rain; by "
        "five you have discovered which gutter leaks. Boxes stand about like guests who came too early. "
        "Only towards morning, when the neighbours' radio murmurs through plaster, does sleep arrive."
    ),
    "what a beekeeper notices": (
        "Before lifting any lid I watch the entrance. Heavy flight with yellow thighs means brood to "
        "feed, idle fanning on a cold day means trouble. A healthy colony hums around A below middle C; "
        "take away its queen and within an hour the note climbs, ragged and anxious. Smell tells more "
        "than sight: warm wax, a hint of bananas if they are alarmed, sour meat where larvae have died. "
        "Gloves dull all that, which is why old hands seldom wear them."
    ),
    "an honest lighthouse inspector": (
        "Report number eighty-one. The lamp is clean, the oil sufficient, the keeper civil though "
        "suspicious of biscuits. I climbed two hundred and twelve steps and lost my hat on the gallery. "
        "Regarding complaints that the beam flashes five times instead of four: I counted throughout a "
        "calm night, wrote down each interval, and can confirm that Mr. Teague adds one for his wife, who "
        "rows home late from Penhallow. It would be wrong to recommend a correction."
    ),
    "learning to whistle": (
        "Wet your lips, says the book, as though that were the difficult part. For a month I produced "
        "weather: gusts, drizzle, once a distant storm. My grandfather, shelling peas, advised me to think "
        "of something cold. Then, halfway between the pump and the barn, a thin clear thread of sound "
        "came out of my face and astonished a hen. I have since played the organ in two cathedrals; no "
        "stop, no pipe has ever made me feel so thoroughly that air belonged to me."
    ),
    "repairing an old radio": (
        "Unplug it, wait, and discharge the big capacitor through a resistor; those few volts remember "
        "who disturbed them. Dust first with a brush, since half of all faults are simply dirt. Look for "
        "brown rings on the chassis, swollen paper cylinders, solder that has gone grey. Replace one "
        "component at a time and keep what you removed in a labelled tin. When at last a station swims up "
        "out of the hiss, resist the temptation to tidy the wiring. It worked for sixty years like that."
    ),
}
_SCHEMA = object_schema({"text": {"type": "string"}})


def prose_tasks() -> list[Task]:
    """Return the texts as free answers, without a schema."""
    return [
        Task(topic, "free text", None, text, f"Write a paragraph about {topic}.\n")
        for topic, text in _STORIES.items()
    ]


def string_tasks() -> list[Task]:
    """Return the texts as strings of a JSON object."""
    return [
        Task(
            topic,
            "free string",
            _SCHEMA,
            json.dumps({"text": text}, ensure_ascii=False),
            f"Write a paragraph about {topic}, as JSON.\n",
        )
        for topic, text in _STORIES.items()
    ]
