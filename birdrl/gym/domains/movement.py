"""Airlines, freight, music, football: domains of things that move, play and compete."""

from __future__ import annotations

from birdrl.gym.domains.vocabulary import (
    Domain,
    city,
    code,
    country,
    date,
    flag,
    key,
    later,
    moment,
    note,
    person,
    phrase,
    pick,
    real,
    ref,
    table,
    when,
    whole,
)

AIRLINE = Domain("airline", (
    table("airports", 50, {
        "airport_id": key(), "city": city(), "country": country(), "elevation": whole(2, 1900, "low"),
        "runways": whole(1, 5, "low"),
    }),
    table("aircraft", 80, {
        "aircraft_id": key(), "model": pick("A320|B737|E190|A330|ATR72"), "seats": whole(48, 320, "low"),
        "built_year": whole(1995, 2022),
        "range_km": whole(1200, 12000, "low").named("range in km"), "leased": flag(0.3),
    }, checks=("seats > 0",)),
    table("flights", 800, {
        "flight_id": key(), "flight_no": code("BR", 200, 3), "origin_id": ref("airports", 0.5),
        "target_id": ref("airports", 0.5, avoid="origin_id"),
        "aircraft_id": ref("aircraft", 0.4), "departs_at": moment("2023-01-01", "2023-12-31"),
        "status": pick("landed|cancelled|diverted|scheduled", 1.2),
        "delay": whole(0, 190, "low", null=0.12).named("delay in minutes"),
        "fare": real(29, 620, shape="low"),
    }, checks=("delay >= 0",), indexes=("origin_id", "departs_at")),
    table("passengers", 380, {
        "passenger_id": key(), "full_name": person(), "nationality": country(),
        "birth_date": date("1945-01-01", "2012-12-31", 0.08),
        "tier": pick("basic|silver|gold", 1.0, null=0.1),
    }),
    table("tickets", 1700, {
        "ticket_id": key(), "flight_id": ref("flights", 0.2), "passenger_id": ref("passengers", 0.5),
        "cabin": pick("economy|business|first", 1.2), "price": real(25, 1400, shape="low"), "bags": whole(0, 4, "low"),
        "booked_on": date("2022-09-01", "2023-12-20"),
    }, unique="flight_id passenger_id", indexes=("passenger_id",)),
))  # fmt: skip

LOGISTICS = Domain("logistics", (
    table("depots", 50, {
        "depot_id": key(), "depot_name": phrase("Depot|Hub|Yard"), "city": city(), "capacity": whole(100, 5000, "low"),
        "opened_on": date("1990-01-01", "2020-12-31"),
    }),
    table("drivers", 120, {
        "driver_id": key(), "driver_name": person(), "depot_id": ref("depots", 0.5), "licence": pick("C|CE|B", 0.4),
        "hired_on": date("2005-01-01", "2023-01-31"), "hourly_wage": real(13, 34, 2, "bell"),
    }, indexes=("depot_id",)),
    table("trucks", 90, {
        "truck_id": key(), "plate": code("KX-", 1100, 13), "depot_id": ref("depots", 0.4, null=0.05),
        "brand": pick("Volvo|Scania|MAN|Iveco"),
        "load_limit": whole(3, 26).named("load limit in tons"), "mileage": whole(4000, 900000, "low"),
        "in_service": flag(0.88),
    }),
    table("trips", 900, {
        "trip_id": key(), "truck_id": ref("trucks", 0.4), "driver_id": ref("drivers", 0.5),
        "start_depot": ref("depots", 0.4),
        "end_depot": ref("depots", 0.4), "left_on": date("2022-01-01", "2023-12-20"),
        "arrived_on": later("left_on", 0, 6, 0.05),
        "distance": real(12, 1900, 1, "low").named("distance in km"),
        "fuel": real(4, 700, 1, "low", null=0.1).named("fuel in litres"),
    }, checks=("arrived_on >= left_on",), indexes=("driver_id", "left_on")),
    table("parcels", 1700, {
        "parcel_id": key(), "trip_id": ref("trips", 0.2, null=0.06), "receiver": person(), "target_city": city(),
        "weight": real(0.1, 60, 1, "low"), "value": real(2, 1500, shape="low", null=0.2), "fragile": flag(0.2),
        "state": pick("delivered|on the way|lost|returned", 1.3),
    }, checks=("weight > 0",), indexes=("trip_id",)),
    table("incidents", 150, {
        "incident_id": key(), "trip_id": ref("trips", 0.5, unused=0.6), "kind": pick("delay|damage|accident|theft"),
        "damage": real(0, 5200, shape="low", null=0.25), "reported_on": date("2022-01-10", "2024-01-10"),
        "remark": note(),
    }),
))  # fmt: skip

MUSIC = Domain("music_streaming", (
    table("artists", 100, {
        "artist_id": key(), "artist_name": phrase(), "country": country(),
        "formed": whole(1965, 2021, null=0.08).named("year of formation"),
        "verified": flag(0.6),
    }),
    table("albums", 220, {
        "album_id": key(), "title": phrase(), "artist_id": ref("artists", 0.5),
        "released_on": date("1990-01-01", "2023-12-31"),
        "label": pick("Nova|Echo|Pulse|Indigo", null=0.15), "price": real(4, 25),
    }, indexes=("artist_id",)),
    table("tracks", 1100, {
        "track_id": key(), "title": phrase(), "album_id": ref("albums", 0.2), "seconds": whole(95, 520, "bell"),
        "genre": pick("rock|pop|jazz|folk|electronic|metal"), "explicit": flag(0.15),
    }, checks=("seconds > 0",), indexes=("album_id",)),
    table("listeners", 260, {
        "listener_id": key(), "nickname": phrase("Fox|Owl|Cat|Wolf|Bear"), "city": city(null=0.06),
        "plan": pick("free|premium|family"),
        "joined_on": date("2016-01-01", "2023-06-30"), "birth_year": whole(1950, 2010, "bell", null=0.12),
    }),
    table("plays", 1900, {
        "play_id": key(), "track_id": ref("tracks", 0.6), "listener_id": ref("listeners", 0.6),
        "played_at": moment("2023-01-01", "2023-12-31"),
        "device": pick("phone|desktop|car|speaker", null=0.06), "skipped": flag(0.22),
    }, indexes=("track_id", "listener_id")),
    table("follows", 600, {
        "listener_id": ref("listeners", 0.4), "artist_id": ref("artists", 0.7),
        "since": date("2017-01-01", "2023-12-31"),
    }, key="listener_id artist_id"),
))  # fmt: skip

FOOTBALL = Domain("football_league", (
    table("stadiums", 50, {
        "stadium_id": key(), "stadium_name": phrase("Park|Arena|Ground"), "city": city(),
        "capacity": whole(3000, 78000, "low"),
        "built_year": whole(1905, 2018), "roofed": flag(0.2),
    }),
    table("teams", 54, {
        "team_id": key(), "team_name": phrase("Lions|Rovers|United|Eagles|Wanderers"),
        "division": pick("first|second|third", 0.0),
        "stadium_id": ref("stadiums", 0.2), "founded": whole(1880, 1990).named("year of foundation"), "coach": person(),
    }, indexes=("division",)),
    table("players", 600, {
        "player_id": key(), "player_name": person(), "team_id": ref("teams", 0.1, null=0.04, unused=0.02),
        "position": pick("midfielder|defender|forward|goalkeeper", 0.6), "born_on": date("1985-01-01", "2006-12-31"),
        "height": whole(163, 204, "bell", null=0.05).named("height in cm"),
        "market_value": real(0.1, 60, 1, "low").named("market value in millions"),
        "country": country(),
    }, indexes=("team_id",)),
    table("matches", 500, {
        "match_id": key(), "home_id": ref("teams", 0.1), "away_id": ref("teams", 0.1, avoid="home_id"),
        "played_on": date("2021-08-01", "2023-05-31"),
        "home_goals": whole(0, 6, "low"), "away_goals": whole(0, 5, "low"),
        "attendance": whole(400, 60000, "low", null=0.1),
        "season": pick("2021/22|2022/23", 0.1), "replay_on": when("season", "2022/23", later("played_on", 3, 20, 0.9)),
    }, checks=("home_goals >= 0",), indexes=("home_id", "played_on")),
    table("goals", 1300, {
        "goal_id": key(), "match_id": ref("matches", 0.2), "player_id": ref("players", 0.6, unused=0.3),
        "minute": whole(1, 94),
        "goal_type": pick("open play|penalty|header|free kick"),
        "assist_id": ref("players", 0.5, null=0.35, avoid="player_id"),
    }, checks=("minute > 0",), indexes=("player_id",)),
))  # fmt: skip

DOMAINS = (AIRLINE, LOGISTICS, MUSIC, FOOTBALL)
